package docs_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The checklist is short, and each box leads to its reason.
func TestTheChecklistHasFifteenBoxesWithALinkEach(t *testing.T) {
	const boxes = 15
	count := 0
	for line := range strings.Lines(read(t, "docs/checklist.md")) {
		if strings.HasPrefix(line, "- [ ] ") {
			count++
			assert.Regexp(t, link, line[len("- [ ] "):])
			assert.NotContains(t, line, ". ", "one line, one sentence")
		}
	}
	assert.Equal(t, boxes, count)
}
