#!/usr/bin/env bash
# Versions of the published modules, for go get. docs/releasing.md says how they are made.
#
#   requires [COMMIT]    modules require the published ones of a commit of this history (HEAD)
#   prepare VERSION      the commits and tags of a version; it pushes nothing
#   files VERSION        dist/: the tool for each system (or SYSTEM/PROCESSOR…), man page, completions,
#                        checksums, notes
#   rehearse             gets, builds and installs HEAD and a version of it, as a user does
#   serve DIR COMMAND…   runs a command; go gets our modules from the repository in DIR
#   get QUERY            gets each published module, and builds it
set -euo pipefail
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE # a hook of git sets these
module=github.com/redlock-go/redlock
script=$(cd "$(dirname "$0")" && pwd)/release.sh
cd "$(git rev-parse --show-toplevel)"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

fail() {
	echo "release: $*" >&2
	exit 1
}

# The folders of the published modules.
published() {
	git ls-files go.mod cmd/redlock/go.mod redlockotel/go.mod 'adapters/*/go.mod' | sed 's#/*go.mod$##; s#^$#.#'
}

# Modules that are not published need it too: go refuses a require that is older than one behind a replace.
set_requires() {
	git ls-files '*go.mod' | while read -r file; do
		sed -E -i.before "s#^((require )?[[:space:]]*$module(/cmd/redlock|/redlockotel|/adapters/[a-z]+)?) v[^ ]+#\\1 $1#" "$file"
		rm "$file.before"
	done
}

# The last commit that changed the root's module has all that others need of it. go knows it by the tag
# that has the same, or by a pseudo-version, which begins with the version after the tag before it.
requires() {
	local others tag commit stamp
	others=$(git ls-files '*/go.mod' | sed 's#\(.*\)/go.mod#:(exclude)\1#')
	tag=$(git describe --tags --abbrev=0 --match 'v[0-9]*' "$1" 2>/dev/null || true)
	commit=$(IFS=$'\n' && git log -1 --first-parent --format=%H "${tag:+$tag..}$1" -- . $others)
	stamp=$(TZ=UTC git show -s --date=format-local:%Y%m%d%H%M%S --format=%cd-%H "${commit:-$1}" | cut -c 1-27)
	if [ -z "$commit" ]; then
		set_requires "$tag"
	elif [ -n "$tag" ]; then
		set_requires "${tag%.*}.$((${tag##*.} + 1))-0.$stamp"
	else
		set_requires "v0.0.0-$stamp"
	fi
}

# The version's section in the changelog.
notes() {
	local text
	text=$(awk -v heading="## [${1#v}] - 20" 'index($0, heading) == 1 { on = 1; next } /^## \[/ { on = 0 } on' CHANGELOG.md)
	[ -n "$text" ] || fail "CHANGELOG.md has no section \"## [${1#v}] - $(date +%F)\" that says what is new"
	echo "$text"
}

# go gets everything else from this machine's module cache, or from where it gets modules.
serve() {
	local repository=$1 proxy
	shift
	proxy="file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)"
	GOPROXY=$proxy GOPRIVATE=$module GOMODCACHE=$tmp/modules GOFLAGS="-modcacherw -trimpath" GOWORK=off \
		GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=url.file://$repository.insteadOf GIT_CONFIG_VALUE_0=https://$module \
		GIT_ALLOW_PROTOCOL=file "$@"
}

# In a clone, so that a failure leaves the repository as it was.
prepare() {
	local version=$1
	[[ $version =~ ^v[01](\.(0|[1-9][0-9]*)){2}$ ]] || fail "\"$version\" is no version of this project: give one like v0.1.0"
	[ -z "$(git status --porcelain)" ] || fail "the work tree has changes: commit, stash or remove them"
	git symbolic-ref -q HEAD >/dev/null || fail "no branch is checked out: check out main"
	notes "$version" >/dev/null
	git clone -q -c user.name="$(git config user.name)" -c user.email="$(git config user.email)" . "$tmp/prepared"
	(cd "$tmp/prepared" && commit_and_tag "$version")
	git pull -q --ff-only "$tmp/prepared" HEAD
	git fetch -q "$tmp/prepared" 'refs/tags/*:refs/tags/*'
	echo "$version is prepared, and nothing is pushed. The root's tag goes last: GitHub starts no workflow for a push of more than three."
	echo "  git push --atomic origin HEAD $(git tag --list "*/$version" | xargs) && git push origin $version"
	echo "Or drop it:"
	echo "  git reset --hard HEAD~3 && git tag -d $(git tag --list "*$version" | xargs)"
}

# The tool's commit alone has no replace, which go install refuses.
commit_and_tag() {
	local version=$1 dir
	set_requires "$version"
	git commit -q -a -m "Release $version: modules require one another in this version"
	for dir in $(published); do
		[ "$dir" = cmd/redlock ] || tag "$dir" "$version"
	done
	[ "$(git tag --list 'v*' --sort=-v:refname | head -n 1)" = "$version" ] || fail "$version is lower than a version before it"
	(cd cmd/redlock && go mod edit -dropreplace=$module && serve "$tmp/prepared" go mod tidy)
	git commit -q -a -m "Release $version: cmd/redlock is built with the published library"
	tag cmd/redlock "$version"
	git revert --no-edit HEAD >/dev/null
}

tag() {
	local name=$1/$2
	git tag -a -m "redlock $2" "${name#./}"
}

# go install makes the same bytes of a version on every machine, with the same Go.
files() {
	local version=$1 target name shell host=$(go env GOHOSTOS)/$(go env GOHOSTARCH)
	shift
	[ $# -gt 0 ] || set -- {linux,darwin,windows,freebsd}/{amd64,arm64}
	rm -rf "dist/$version" && mkdir -p "dist/$version"
	notes "$version" >"dist/$version.md"
	for target in "$@"; do
		GOMODCACHE=$(go env GOMODCACHE) GOPATH=$tmp/built CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} GOFLAGS=-trimpath \
			go install -ldflags='-s -w -buildid=' "$module/cmd/redlock@$version"
		name=redlock_${version}_${target/\//_}
		[ "${target%/*}" != windows ] || name=$name.exe
		find "$tmp/built/bin" -type f -exec mv {} "dist/$version/$name" \;
	done
	cp docs/redlock.1 "dist/$version"
	for shell in bash zsh fish powershell; do
		"dist/$version/redlock_${version}_${host/\//_}" completion $shell >"dist/$version/redlock.$shell"
	done
	mv "dist/$version"/redlock.{powershell,ps1}
	(cd "dist/$version" && sums=$(sha256sum * 2>/dev/null || shasum -a 256 *) && echo "$sums" >SHA256SUMS)
	echo "dist/$version has the files, dist/$version.md the notes"
}

get() {
	local dir program=$tmp/program
	for dir in $(published); do
		path=$module/$dir
		path=${path%/.}
		rm -rf "$program" && mkdir "$program"
		(cd "$program" && go mod init example.com/program && go get "$path/...@$1" && go build "$path/...") >"$tmp/log" 2>&1 ||
			fail "go get $path@$1: $(cat "$tmp/log")"
		echo "go get $path@$1"
	done
}

rehearse() {
	local version=v0.999.0 clone=$tmp/clone host=$(go env GOHOSTOS)/$(go env GOHOSTARCH) said
	export GIT_{AUTHOR,COMMITTER}_NAME=rehearsal GIT_{AUTHOR,COMMITTER}_EMAIL=rehearsal@localhost
	git clone -q . "$clone"
	cd "$clone"
	git checkout -q -B main
	"$script" serve "$clone" "$script" get main
	awk -v heading="## [${version#v}] - $(date +%F)" '{ print } /^## \[Unreleased\]/ { print ""; print heading }' CHANGELOG.md >CHANGELOG.new && mv CHANGELOG.new CHANGELOG.md
	git commit -q -a -m "Notes for a rehearsal"
	"$script" prepare $version
	"$script" serve "$clone" "$script" get $version
	"$script" serve "$clone" "$script" files $version "$host"
	said=$("dist/$version/redlock_${version}_${host/\//_}" version)
	[[ $said == "redlock $version "* ]] || fail "the tool says that it is \"$said\", not $version"
	cat dist/$version/SHA256SUMS
}

case ${1-} in
requires) requires "${2:-HEAD}" ;;
prepare | files | get | serve) "$@" ;;
rehearse) rehearse ;;
*) fail "see the head of $script" ;;
esac
