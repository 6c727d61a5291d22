#!/bin/bash -eu
# build.sh - build the fuzz targets as OSS-Fuzz wants them
#
# Called in the source tree, with CC, CFLAGS, LIB_FUZZING_ENGINE, OUT and WORK in the environment.
# The machine that fuzzes has none of the libraries, so they go along.
tree=$PWD
./autogen.sh
mkdir -p "$WORK/build" "$OUT/lib"
cd "$WORK/build"
"$tree/configure" --disable-shared --enable-fuzzers --enable-invariants beest_cv_fortran=no
make -j"$(nproc)" lib/libbeest.la
libraries=$(sed -n 's/^Libs.private: *//p' libhartebeest.pc)
for source in "$tree"/tests/fuzz/*.c; do
	name=$(basename "$source" .c)
	$CC $CFLAGS -std=gnu99 -I. -I"$tree" -c -o "$name.o" "$source"
	$CXX ${CXXFLAGS:-} $CFLAGS -o "$OUT/$name" "$name.o" lib/.libs/libbeest.a \
		$LIB_FUZZING_ENGINE $libraries -libverbs -Wl,-rpath,'$ORIGIN/lib'
	ldd "$OUT/$name" | awk '$3 ~ /^\// && $1 !~ /^lib(c|m|dl|rt|pthread)\.so/ { print $3 }' |
		xargs -r cp -t "$OUT/lib"
	(cd "$tree/tests/fuzz/corpus/$name" && zip -qr "$OUT/${name}_seed_corpus.zip" .)
done
