package docs_test

import (
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

var (
	link    = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+?)\s*$`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func TestEveryLinkLeadsSomewhere(t *testing.T) {
	all, _ := pages(t)
	anchors := map[string]map[string]bool{}
	for _, p := range all {
		anchors[p.path] = p.anchors()
	}
	links := 0
	for _, p := range all {
		for _, m := range link.FindAllStringSubmatch(inline.ReplaceAllString(p.prose(), "code"), -1) {
			links++
			assert.NoError(t, follow(p, m[1], anchors), "%s: %s", p.path, m[1])
		}
	}
	assert.Greater(t, links, 50)
}

// follow returns an error if a link leads nowhere. Of a link to the web it checks the form
// only.
func follow(p page, target string, anchors map[string]map[string]bool) error {
	u, err := url.Parse(target)
	switch {
	case err != nil:
		return err
	case u.IsAbs():
		if u.Scheme != "https" && u.Scheme != "http" || !strings.Contains(u.Host, ".") {
			return fmt.Errorf("not an address on the web")
		}
		return nil
	}
	file := p.path
	if u.Path != "" {
		file = path.Join(path.Dir(p.path), u.Path)
	}
	if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
		return err
	}
	if u.Fragment != "" && !anchors[file][u.Fragment] {
		return fmt.Errorf("%s has no heading %q", file, u.Fragment)
	}
	return nil
}

// anchors returns the names that GitHub gives to the page's headings.
func (p page) anchors() map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(p.prose(), -1) {
		text := link.ReplaceAllStringFunc(m[1], func(l string) string { return strings.Trim(l[:strings.Index(l, "]")], "[") })
		name := strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(text), ""), " ", "-")
		for i, unique := 1, name; ; i++ {
			if !all[unique] {
				all[unique] = true
				break
			}
			unique = fmt.Sprint(name, "-", i)
		}
	}
	return all
}
