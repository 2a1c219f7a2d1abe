package docs_test

import (
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A reader finds every page of docs/ from its index.
func TestTheIndexHasEveryPage(t *testing.T) {
	const index = "docs/README.md"
	linked := map[string]bool{}
	for _, m := range link.FindAllStringSubmatch(read(t, index), -1) {
		file, _, _ := strings.Cut(m[1], "#")
		linked[path.Join(path.Dir(index), file)] = true
	}
	all, _ := pages(t)
	for _, p := range all {
		if strings.HasPrefix(p.path, "docs/") && p.path != index {
			assert.True(t, linked[p.path], p.path)
		}
	}
}
