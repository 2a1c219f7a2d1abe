#!/usr/bin/env bash
# Makes ready what the tests need beside Go, and prints nothing where all of it is there.
#
#   tools/setup.sh NEED …
#
# A need is one of these:
#
#   servers     programs or an image for real Redis servers; without them it ends with 1
#   compiler    a C compiler, for the race detector; without it it ends with 1
#   redis-server  the program, also where an engine runs the servers; the tests that need it skip without it
#   prometheus  promtool and prometheus; the tests that need them skip without them
#   chromium    a browser; the tests that need it skip without it
#
# It installs packages where it may do so without a question, after a line that says so. Written for bash 3.2, which
# macOS has.
set -u

# The image is that of integration/cluster, which reads the same variable.
readonly image=${REDLOCK_TEST_IMAGE:-redis:7-alpine}
readonly contact=3 # seconds that a registry has for its first answer

has() { command -v "$1" >/dev/null 2>&1; }

# as_root holds the words before a command that needs root; install is the command that installs packages.
as_root=()
find_installer() {
	install=()
	for manager in apt-get dnf apk brew; do
		has "$manager" || continue
		case $manager in
		apt-get) install=(env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends) ;;
		dnf) install=(dnf install -q -y) ;;
		apk) install=(apk add -q) ;;
		brew) install=(brew install -q) ;;
		esac
		break
	done
	[ "${#install[@]}" -gt 0 ] || return 1
	[ "$manager" != brew ] && [ "$(id -u)" -ne 0 ] && as_root=(sudo)
	return 0
}

may_install() {
	[ "${#as_root[@]}" -eq 0 ] || { has sudo && sudo -n true 2>/dev/null; }
}

# packages prints the names of the packages that bring a need.
packages() {
	case $1-$manager in
	servers-apt-get) echo redis-server ;;
	servers-*) echo redis ;;
	compiler-apt-get) echo gcc libc6-dev ;;
	compiler-apk) echo gcc musl-dev ;;
	compiler-*) echo gcc ;;
	prometheus-*) echo prometheus ;;
	chromium-*) echo chromium ;;
	esac
}

# install_need installs the packages of a need, and says so first. If it may not, it prints the command.
install_need() {
	local need=$1 what=$2 names
	if ! find_installer; then
		echo "$what Install it as this system does, and run the command again." >&2
		return 1
	fi
	read -ra names <<<"$(packages "$need")"
	local command=(${as_root[@]+"${as_root[@]}"} "${install[@]}" "${names[@]}")
	if ! may_install; then
		echo "$what To install it: ${command[*]}" >&2
		return 1
	fi
	echo "$what Installing it: ${command[*]}"
	[ "$manager" != apt-get ] || ${as_root[@]+"${as_root[@]}"} apt-get update -q >/dev/null || {
		echo "apt-get update failed." >&2
		return 1
	}
	"${command[@]}" >/dev/null || {
		echo "The command failed: ${command[*]}" >&2
		return 1
	}
}

# pull_image pulls the image, and gives up early where no registry answers: docker itself tries for long.
pull_image() {
	local log waited=0
	log=$(mktemp) || return 1
	docker pull "$image" >"$log" 2>&1 &
	local pulling=$!
	while kill -0 "$pulling" 2>/dev/null; do
		if [ ! -s "$log" ] && [ "$waited" -ge $((contact * 10)) ]; then
			kill "$pulling" 2>/dev/null
			break
		fi
		sleep 0.1
		waited=$((waited + 1))
	done
	rm -f "$log"
	wait "$pulling" 2>/dev/null
}

has_engine_with_image() {
	[ "${REDLOCK_TEST_BACKEND:-}" != process ] && has docker && docker version >/dev/null 2>&1 || return 1
	docker image inspect "$image" >/dev/null 2>&1 || pull_image
}

need_servers() {
	[ -z "${REDLOCK_TEST_SERVERS:-}" ] || return 0
	has_engine_with_image && return 0
	if [ -n "${REDLOCK_TEST_IMAGE:-}" ]; then
		echo "No engine here has or can pull the image $image, which REDLOCK_TEST_IMAGE names." >&2
		return 1
	fi
	has redis-server ||
		install_need servers "The tests need real Redis servers: no engine here has or can pull the image $image, and there is no redis-server."
}

need_compiler() {
	echo '#include <stdlib.h>' | $(go env CC) -E - >/dev/null 2>&1 ||
		install_need compiler "The race detector needs a C compiler."
}

for need in "$@"; do
	case $need in
	servers) need_servers || exit 1 ;;
	compiler) need_compiler || exit 1 ;;
	redis-server) has redis-server || install_need servers "Some tests start redis-server themselves, and skip without it." || true ;;
	prometheus) { has prometheus && has promtool; } || install_need prometheus "Tests of alerts need Prometheus, and skip without it." || true ;;
	chromium) has chromium || has chromium-browser || has google-chrome || has google-chrome-stable || has chrome || has headless-shell || install_need chromium "Tests of pages need Chromium, and skip without it." || true ;;
	*)
		echo "tools/setup.sh: unknown need \"$need\"" >&2
		exit 2
		;;
	esac
done
