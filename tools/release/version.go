package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"
)

// versionForm has neither pre-releases nor a major version for which module paths need a suffix.
var versionForm = regexp.MustCompile(`^v[01]\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$`)

func checkVersion(version string) error {
	switch {
	case versionForm.MatchString(version):
		return nil
	case version == "":
		return fmt.Errorf("no version is given: make release VERSION=v0.1.0")
	}
	return fmt.Errorf("%q is no version of this project: give one like v0.1.0 "+
		"(three numbers, no suffix; from v2 on, the modules' paths would have to end in /v2)", version)
}

// previousVersion returns the highest version before the given one that a commit contains, by the
// root's tags, or "" if there is none.
func previousVersion(ctx context.Context, repo repository, commit, version string) (string, error) {
	tags, err := repo.lines(ctx, "tag", "--list", "v*", "--merged", commit)
	if err != nil {
		return "", err
	}
	tags = slices.DeleteFunc(tags, func(tag string) bool { return !versionForm.MatchString(tag) || tag == version })
	if len(tags) == 0 {
		return "", nil
	}
	return slices.MaxFunc(tags, semver.Compare), nil
}

// nextVersion is what a rehearsal takes: the changelog's newest version if there is no tag of it,
// else the next minor version.
func nextVersion(changelog, previous string) string {
	if newest := newestVersion(changelog); semver.Compare(newest, previous) > 0 {
		return newest
	}
	if previous == "" {
		return "v0.1.0"
	}
	parts := strings.Split(previous, ".")
	minor, _ := strconv.Atoi(parts[1]) // a number, by versionForm
	return fmt.Sprintf("%s.%d.0", parts[0], minor+1)
}
