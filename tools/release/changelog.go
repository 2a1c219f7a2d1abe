package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

const changelogFile = "CHANGELOG.md"

var (
	sectionHeading  = regexp.MustCompile(`(?m)^## \[([^]]+)\](?: - (\S+))?[ \t]*$`)
	breakingHeading = regexp.MustCompile(`(?m)^### Breaking[ \t]*\n\s*[^#\s]`)
)

// releaseNotes returns the text of a version's section in the changelog.
func releaseNotes(changelog, version string) (string, error) {
	name := strings.TrimPrefix(version, "v")
	headings := sectionHeading.FindAllStringSubmatchIndex(changelog, -1)
	for i, h := range headings {
		if changelog[h[2]:h[3]] != name {
			continue
		}
		if h[4] < 0 {
			return "", fmt.Errorf(`%s: the heading "## [%s]" has no day: write "## [%s] - 2006-01-02"`,
				changelogFile, name, name)
		}
		if _, err := time.Parse(time.DateOnly, changelog[h[4]:h[5]]); err != nil {
			return "", fmt.Errorf(`%s: %q is no day: write "## [%s] - 2006-01-02"`,
				changelogFile, changelog[h[4]:h[5]], name)
		}
		end := len(changelog)
		if i+1 < len(headings) {
			end = headings[i+1][0]
		}
		text := strings.TrimSpace(changelog[h[1]:end])
		if text == "" {
			return "", fmt.Errorf("%s: the section of %s is empty: say what is new", changelogFile, version)
		}
		return text + "\n", nil
	}
	return "", fmt.Errorf(`%s has no section of %s: put the heading "## [%s] - 2006-01-02", with today's day, `+
		`under "## [Unreleased]", and commit that`, changelogFile, version, name)
}

// saysBreaking reports whether notes have a section Breaking that says something.
func saysBreaking(notes string) bool { return breakingHeading.MatchString(notes) }

// newestVersion returns the version of the first section that has one, or "".
func newestVersion(changelog string) string {
	for _, m := range sectionHeading.FindAllStringSubmatch(changelog, -1) {
		if version := "v" + m[1]; versionForm.MatchString(version) {
			return version
		}
	}
	return ""
}

// nameUnreleased makes the section Unreleased that of a version.
func nameUnreleased(changelog, version string, day time.Time) string {
	heading := fmt.Sprintf("## [%s] - %s\n", strings.TrimPrefix(version, "v"), day.Format(time.DateOnly))
	return strings.Replace(changelog, "## [Unreleased]\n", "## [Unreleased]\n\n"+heading, 1)
}
