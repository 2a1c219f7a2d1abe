package docs_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

var (
	stateSet = regexp.MustCompile(`s\.State(?:, s\.Err)? = "(\w+)"`)
	stateRow = regexp.MustCompile("(?m)^\\| `\"(\\w+)\"` \\|")
)

func TestTheReferenceListsTheStatesOfANode(t *testing.T) {
	list := func(where *regexp.Regexp, file string) (states []string) {
		for _, m := range where.FindAllStringSubmatch(read(t, file), -1) {
			states = append(states, m[1])
		}
		slices.Sort(states)
		return states
	}
	set := list(stateSet, "pool.go")
	assert.Len(t, set, 6, "the code sets them in another way")
	assert.Equal(t, set, list(stateRow, "docs/reference/methods.md"))
}
