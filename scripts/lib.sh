# lib.sh - shared by the scripts that build: packages, build folder, compiler cache, verbs device,
# and the line that says how far they are
#
# Sourced, not run.  Owns the build folders and installs packages; knows nothing of what runs
# afterwards.  bash 4.2 (CentOS 7) is enough.

set -euo pipefail
# Scripts read the words of other tools, which translate them in other locales.
export LC_ALL=C
# configure and libtool would choose bash, which takes twice as long as Debian's sh.
export CONFIG_SHELL=/bin/sh
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${BEEST_BUILD:-$top/build}
logs=$build/logs
news=			# "yes" after packages were installed: configure may find more now

# A terminal has one line that says how far the work is; a log gets such a line every few seconds.
if [ -t 1 ]; then erase=$'\033[K' period=1; else erase='' period=8; fi

say() { printf '%s== %s\n' "$erase" "$*"; }
die() { unwatch; printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# watch COMMAND...: until unwatch, prints now and then what COMMAND prints, which says how far the
# work is.  Only the main shell does so: what runs in the background has a log.
watcher=
watch() {
	local start=$SECONDS
	[ $BASHPID = $$ ] || return 0
	unwatch
	{
		local last=$SECONDS end='\n'
		[ -z "$erase" ] || end='\r'
		while sleep 1 >/dev/null && kill -0 $$; do
			[ $((SECONDS - last)) -ge $period ] || continue
			last=$SECONDS
			printf "%s-- %s, %d s$end" "$erase" "$("$@")" $((last - start))
		done
	} 2>/dev/null &
	watcher=$!
}

unwatch() {
	[ $BASHPID = $$ ] && [ -n "$watcher" ] || return 0
	kill "$watcher" 2>/dev/null || :
	wait "$watcher" 2>/dev/null || :
	watcher=
	printf %s "$erase"
}

# configure would refuse these paths, but only after minutes of installing packages.
for path in "$top" "$build"; do
	case $path in
	*[[:space:]\\\"\'\#\$\&\`]*)
		die "the path '$path' has a blank or one of \\ \" ' # \$ & \`, which configure and make" \
			"cannot handle: use another folder, such as ~/libhartebeest" ;;
	esac
done

# cron(8) and some containers set no HOME, where the caches are.
export HOME=${HOME:-$(getent passwd "$(id -u)" | cut -d : -f 6)}

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# quietly NAME COMMAND...: writes the output of COMMAND to $logs/NAME.log; if COMMAND fails, shows
# the last lines and exits.  Meanwhile, $state prints how far it is, by default NAME.
quietly() {
	local log=$logs/$1.log
	mkdir -p "$logs"
	watch ${state:-echo "$1"}
	shift
	if "$@" >"$log" 2>&1 </dev/null; then
		unwatch
		return 0
	fi
	unwatch
	tail -n 60 "$log" >&2
	die "failed: $* (full output: $log)"
}

# count_lines PATTERN FILE: prints how many lines match, 0 without the file
count_lines() {
	grep -cE "$1" "$2" 2>/dev/null || [ -e "$2" ] || echo 0
}

# make_counting NAME FOLDER [argument...]: runs make, whose silent rules print a line for each file
# that they make.  "make -n" names these beforehand, some several times, and would take config.h for
# changed.
make_counting() {
	local name=$1 folder=$2 files state
	shift 2
	files=$(make -n -o config.h AM_MAKEFLAGS="-o config.h" -C "$folder" "$@" 2>/dev/null |
		sed -n 's/^echo "  [A-Z]*  *" \([^;]*\);.*/\1/p' | sort -u | wc -l) || :	# make says why
	state="files_built $logs/$name.log $files"
	quietly "$name" make -C "$folder" -j"$(getconf _NPROCESSORS_ONLN)" "$@"
}

files_built() {
	echo "building $(count_lines '^  [A-Z]+ ' "$1") of $2 files"
}

# packages_of COLUMN PURPOSE...: prints the packages of these purposes in scripts/packages; column 2
# is for apt, 3 for dnf and yum
packages_of() {
	awk -v column="$1" -v purposes=" ${*:2} " \
		'!/^#/ && $column != "-" && index(purposes, " " $1 " ") { print $column }' \
		"$top/scripts/packages" | tr ',' '\n'
}

# missing_debs PACKAGE...: prints those that are not installed
missing_debs() {
	local package
	for package in "$@"; do
		dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null |
			grep -q '^install ok installed$' || echo "$package"
	done
}

# Waits while another process uses apt.  DPkg::Lock::Timeout is not enough: it covers dpkg's locks,
# but not those of the package lists and the downloaded packages.
apt_get() {
	local log=$logs/apt-$1.log limit=$((SECONDS + 600))
	mkdir -p "$logs"
	until as_root env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get \
	      -o DPkg::Lock::Timeout=600 "$@" >"$log" 2>&1 </dev/null; do
		if ! grep -q '^E: Could not get lock' "$log" || [ $SECONDS -ge $limit ]; then
			tail -n 60 "$log" >&2
			die "failed: apt-get $* (full output: $log)"
		fi
		sleep 2
	done
}

# Prints how far "apt-get install" is, by its own count.
apt_state() {
	local log=$logs/apt-install.log count
	count=$(sed -n 's/.*upgraded, \([0-9]*\) newly installed.*/\1/p' "$log" 2>/dev/null)
	if [ -n "$count" ]; then
		echo "installing $count packages: $(count_lines '^Unpacking ' "$log") unpacked," \
			"$(count_lines '^Setting up ' "$log") set up"
	else
		echo "looking for packages"
	fi
}

# Programs start the servers that they need.  Packages of daemons would start them now (memcached on
# port 11211, munge, slurmd) and at each boot.
apt_install_quietly() (
	local policy=${BEEST_POLICY:-/usr/sbin/policy-rc.d} units
	if [ ! -e "$policy" ]; then
		trap 'as_root rm -f "$policy"' EXIT
		as_root sh -c 'printf "#!/bin/sh\nexit 101\n" >"$1" && chmod 755 "$1"' - "$policy"
	fi
	apt_get install -y --no-install-recommends "$@"
	units=$(dpkg -L "$@" 2>/dev/null | sed -n 's,.*/systemd/system/\([^/@]*\.service\)$,\1,p')
	[ -z "$units" ] || ! command -v systemctl >/dev/null || as_root systemctl -q disable $units
)

apt_install() {
	local missing
	missing=$(missing_debs "$@")
	[ -n "$missing" ] || return 0
	say "installing:" $missing
	news=yes
	rm -f "$logs/apt-install.log"
	watch apt_state
	apt_get update
	apt_install_quietly $missing
	unwatch
}

# prepare PURPOSE...: installs the packages of these purposes that are missing
prepare() {
	if command -v apt-get >/dev/null; then
		apt_install $(packages_of 2 "$@")
	elif command -v dnf >/dev/null; then
		quietly dnf-install as_root dnf install -y $(packages_of 3 "$@")
	elif command -v yum >/dev/null; then
		quietly yum-install as_root yum install -y $(packages_of 3 "$@")
	else
		die "no apt-get, dnf or yum here: install what scripts/packages lists"
	fi
}

# Compiles through ccache, if it is installed, so that folders and clones share compiled files.  A
# debugger may therefore find another clone's name in them.  CCACHE_DIR is set, since debhelper
# changes HOME.
use_ccache() {
	local cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
	local folder=${CCACHE_DIR:-${cache:+$cache/ccache}}
	[[ :$PATH: != *:/usr/lib/ccache:* ]] && [ -d /usr/lib/ccache ] && [ -n "$folder" ] &&
		mkdir -p "$folder" 2>/dev/null || return 0
	export PATH=/usr/lib/ccache:$PATH CCACHE_DIR=$folder CCACHE_BASEDIR=$top CCACHE_NOHASHDIR=1
}

have_device() {
	"$top/tests/vm/device" >/dev/null 2>&1
}

# is_configured FOLDER ARGUMENTS: was FOLDER configured with these arguments, by the current
# configure, and with the packages that are installed now?
is_configured() {
	[ -f "$1/config.status" ] && [ ! "$top/configure" -nt "$1/config.status" ] &&
		[ -z "$news" ] && [ "$(cat "$1/configured" 2>/dev/null)" = "$2" ]
}

configure_in() (
	cd "$1"
	"$top/configure" "${@:2}"
)

# build_in FOLDER [configure argument...]: configures FOLDER if needed, and makes $goals, by default
# all
build_in() {
	local folder=$1
	shift
	use_ccache
	if [ ! -x "$top/configure" ] || [ ! -d "$top/build-aux" ] ||
	   [ "$top/configure.ac" -nt "$top/configure" ] ||
	   [ "$top/Makefile.am" -nt "$top/Makefile.in" ]; then
		quietly autogen "$top/autogen.sh"
	fi
	# Lists new headers, pages and examples; make itself notices all other changes.
	[ ! -w "$top" ] || "$top/scripts/make-lists"
	mkdir -p "$folder"
	if ! is_configured "$folder" "$*"; then
		quietly "configure-${folder##*/}" configure_in "$folder" "$@"
		echo "$*" >"$folder/configured"
	fi
	make_counting "make-${folder##*/}" "$folder" ${goals:-all}
}
