package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestBlocksAreParagraphsItemsAndCells(t *testing.T) {
	const page = "# Heading\n" +
		"One, and\nstill one.\n" + // 2
		"<!-- a comment\n\nof three lines --> Two <!-- and --> more:\n" + // 4
		"- item one\n  goes on\n- item two:\n\n" + // 7
		"    of the same item\n\n" + // 11
		"  1. inner\n\n" + // 13
		"> quoted\n\n" + // 15
		"    go run . # code\n\n" + // 17
		"```sh\n# code\n```\n" +
		"  ~~~\n  - code\n  ~~~\n" +
		"| a | `b\\|c` |\n| :-- | --- |\n| d | |\n" + // 25
		"- item\n```\ncode\n```\nAfter.\n\n---\n[x]: http://a.test\nEnd.\n" + // 36
		"- item\n\n## Heading\n\n    code\n"
	assert.Equal(t, []block{
		{line: 2, text: "One, and\nstill one."},
		{line: 6, text: "Two  more:"},
		{line: 7, text: "item one\ngoes on"},
		{line: 9, text: "item two:"},
		{line: 11, text: "of the same item"},
		{line: 13, text: "inner"},
		{line: 15, text: "quoted"},
		{line: 25, text: "a", cell: true},
		{line: 25, text: "`b\\|c`", cell: true},
		{line: 27, text: "d", cell: true},
		{line: 27, text: "", cell: true},
		{line: 28, text: "item"},
		{line: 32, text: "After."},
		{line: 36, text: "End."},
		{line: 37, text: "item"},
	}, blocks(page))
}
