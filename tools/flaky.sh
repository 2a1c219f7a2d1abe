#!/usr/bin/env bash
# Runs tests that take real time. A test that fails runs once more, alone, after the others. If it passes then, it is
# printed as FLAKY behind the log of its failure, and the run passes; docs/testing.md says what to do with it. There is
# no second run after a data race, a panic, a package that fails outside of its tests or does not build, or more than five failures.
# The other tests of its package run again as well: leaks are looked for only where all tests of a run have passed.
#
#   tools/flaky.sh [FLAG=VALUE …] PACKAGE …
#
# Flags are those of go test. It runs in the module of the packages; make out/gotestsum builds what it needs.
set -u
packages=() flags=(-shuffle=on -count=1) skip=
for word in "$@"; do
	case $word in
	-skip=*) skip=${word#-skip=} && flags+=("$word") ;;
	-*) flags+=("$word") ;;
	*) packages+=("$word") ;;
	esac
done
report=$(mktemp) && events=$(mktemp) || exit 1
trap 'rm -f "$report" "$events"' EXIT
"$(dirname "$0")/out/gotestsum" --format=standard-verbose --no-color \
	--rerun-fails=1 --rerun-fails-max-failures=5 --rerun-fails-abort-on-data-race --rerun-fails-report="$report" --jsonfile="$events" \
	--packages="${packages[*]}" -- "${flags[@]}"
result=$?
# A package can fail though its tests pass: by a leak, or while it cleans up. gotestsum would run none of its tests again,
# and pass.
awk -F'"Package":"' '/"Action":"fail"/ { split($2, word, "\""); if (/"Test":"/) tests[word[1]]; else packages[word[1]] }
	END { for (p in packages) if (!(p in tests)) { print p " failed outside of its tests; its log is above"; bad = 1 }; exit bad }' "$events" || result=1
# Each package with a test that failed, and a pattern of these tests.
failed=$(awk -F'"' '/"Action":"fail"/ && /"Test":"/ { for (i = 1; i < NF; i++) { if ($i == "Package") p = $(i + 2); if ($i == "Test") t = $(i + 2) }
	sub(/\/.*/, "", t); if (!((p, t) in seen)) tests[p] = tests[p] (p in tests && tests[p] != "" ? "|" : "") t; seen[p, t] }
	END { for (p in tests) print p, "^(" tests[p] ")$" }' "$events")
while [ $result = 0 ] && read -r package tests && [ "$package" ]; do
	echo "the other tests of $package run again"
	go test "${flags[@]}" -skip="${skip:+$skip|}$tests" "$package" </dev/null || { echo "$package fails without its FLAKY tests" && result=1; }
done <<<"$failed"
sed -n 's/^\(.*\): 2 runs, 1 failures$/FLAKY \1: it failed, and passed when it ran again, alone/p' "$report"
exit $result
