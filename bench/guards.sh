# guards.sh - what bench/slow and bench/busy share: rows of other benches, and limits on them
#
# A row is "WHERE|BENCH N|WAY|ms|connects a rank|MB"; WHERE names the surroundings of the run.  A
# limit is a line of a table, with tabs:
#
#	FIGURE	BENCH N	WHERE	WAY	FACTOR	WHERE	WAY
#
# The figure (ms, connects, MB) of the first way is at most FACTOR times that of the second, or at
# most FACTOR if there is no second.  Behind "aim ", it is only wanted, and never fails.
# shellcheck shell=bash

rows=$(mktemp)
trap 'rm -f "$rows" "$rows.new"' EXIT

# take WHERE PROGRAM ARGUMENT...: runs a bench, and keeps its rows
take() {
	local where=$1
	shift
	echo "-- $where: $*"
	"$@" 2>&1 | grep -E '^\| [0-9]|gave up' | tee -a "$rows.new"
	awk -F' *[|] *' -v where="$where" -v bench="${1##*/}" -v OFS='|' 'NF > 10 && $4 + 0 {
		print where, bench " " $2, $3, $4, $(NF - 2), $(NF - 1) }' "$rows.new" >>"$rows"
	rm -f "$rows.new"
}

# judge <TABLE: prints which limits hold.  1: some do not.
judge() {
	awk -F'\t' '
	function figure(name, row,   at) {
		at["ms"] = 4; at["connects"] = 5; at["MB"] = 6
		split(row, cells, "|")
		return cells[at[name]]
	}
	NR == FNR { split($0, c, "|"); row[c[1] "|" c[2] "|" c[3]] = $0; next }
	NF < 5 { next }
	{
		aim = sub(/^aim /, "", $1)
		side = $3 "|" $2 "|" $4; against = $6 "|" $2 "|" $7
		what = $4 " (" $2 "), " $3 ": "
		if (!(side in row)) {
			if (!aim) { print "MISSED: " what "it gave up"; bad = 1 }
			next
		}
		value = figure($1, row[side])
		base = 1
		said = sprintf("%.3g %s", value, $1)
		if (NF >= 7) {
			if (!(against in row)) { print "not measured: " what "without " $7; next }
			base = figure($1, row[against])
			said = sprintf("%.3g x the %s of %s%s", base ? value / base : 0, $1, $7,
				$6 == $3 ? "" : ", " $6)
		}
		good = value <= $5 * base
		bad += !good && !aim
		print (aim ? (good ? "reached: " : "aim: ") : good ? "met: " : "MISSED: ") \
			what said "; at most " $5
	}
	END { exit bad != 0 }' "$rows" -
}
