#!/usr/bin/env bash
# Runs targets of the Makefile in lanes, and ends with a table of what ran, on which servers,
# and how long it took, and with the tests that failed.
#
#   tools/parts.sh TITLE 'target target …' ['target …' …]
#
# Each argument after the title is a lane: its targets run one after the other, and the lanes
# run at the same time. The output of a target is printed only if it fails. A target prints a
# line "what: …" that describes it for the table, and tests print a line "servers: …" that
# names their servers.
set -u
title=$1
shift
logs=$(mktemp -d) || exit 1
lanes=()
# Each lane is a process group, so that an interrupt ends all processes that it has started.
set -m
end_lanes() {
	for pid in ${lanes[@]+"${lanes[@]}"}; do kill -TERM -- "-$pid" 2>/dev/null; done
	wait
}
trap 'rm -rf "$logs"' EXIT
trap 'end_lanes; exit 130' INT TERM HUP

run_part() {
	local part=$1 result=ok times
	TIMEFORMAT='%0R %0U %0S'
	times=$({ time "${MAKE:-make}" --no-print-directory "$part" >"$logs/$part.log" 2>&1 && touch "$logs/$part.ok"; } 2>&1)
	set -- $(echo "$times" | tail -n 1)
	! grep -q '^FLAKY ' "$logs/$part.log" || result='ok, FLAKY'
	[ -e "$logs/$part.ok" ] || result=FAILED
	printf '%-16s %7d %7d  %-9s %s\n' "$part" "$1" "$(($2 + $3))" "$result" \
		"$(sed -n '/^what: /{s///p;q;}' "$logs/$part.log")" >>"$logs/rows"
	if [ "$result" = FAILED ]; then
		grep -vE '^ *(=== (RUN|PAUSE|CONT|NAME)|--- (PASS|SKIP))' "$logs/$part.log"
	elif [ "$result" != ok ]; then
		sed -n '/^=== Failed$/,$p' "$logs/$part.log"
	fi
	echo "$part: $result after $1 s"
}

began=$(date +%s)
echo "$title runs: $*. The output of a part is printed if it fails."
for lane in "$@"; do
	{ for part in $lane; do run_part "$part"; done; } </dev/null &
	lanes+=($!)
done
wait

echo
echo "$title, $(go env GOOS)/$(go env GOARCH), $(go env GOVERSION)"
printf '%-16s %7s %7s  %-9s %s\n' part seconds 'of CPU' '' 'what it runs'
cat "$logs/rows"
cat "$logs"/*.log | grep -E '^servers: ' | sort -u
cat "$logs"/*.log | grep -oE '[0-9]+ seeds (in|from) .*|slow: seed .*|replay it with: .*|[0-9]+ fresh seeds .*' || true
cat "$logs"/*.log | grep '^FLAKY ' || true
cat "$logs"/*.log | grep -E -A1 '^ *--- SKIP: ' | grep -vE '^(--|=== )' | sed 's/^/skipped: /' | cut -c 1-200 | sort -u | head -n 60
# The failures come last, too: a log that is kept may lose its beginning.
failed=0
for part in $*; do
	[ ! -e "$logs/$part.ok" ] || continue
	failed=1
	echo "$part FAILED:"
	grep -E '^ *--- FAIL: |Error Trace: |Error: |Messages: |^panic: |running tests:|^[[:space:]]+Test.* \([0-9hms.]+\)$|DATA RACE|^make.*Error' \
		"$logs/$part.log" | cut -c 1-250 | head -n 40
done
echo "in all $(($(date +%s) - began)) s"
exit $failed
