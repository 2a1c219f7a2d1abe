#!/usr/bin/env bash
# Runs a command once for each server program that REDLOCK_TEST_SERVERS names, and once for all of
# them, which then form mixed clusters. Without that variable it runs the command once.
#
#   tools/each-server.sh COMMAND [ARGUMENT …]
#
# It goes on after a failure, and fails if any of the runs did.
set -u
IFS=: read -ra programs <<<"${REDLOCK_TEST_SERVERS:-}"
runs=(${programs[@]+"${programs[@]}"})
[ "${#runs[@]}" -eq 1 ] || runs+=("${REDLOCK_TEST_SERVERS:-}")
result=0
for run in "${runs[@]}"; do
	REDLOCK_TEST_SERVERS=$run "$@" || result=1
done
exit $result
