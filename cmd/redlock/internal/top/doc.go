// Package top is the face of redlock top: the locks of a cluster on a terminal, by need.
//
// # The idea
//
// A Face makes lines of a snapshot of internal/overview: a page. A line is cells of text with a tone, so
// the same page is drawn on a screen of tcell, printed into a pipe, and compared with text in tests. The Face asks
// nothing, and knows no time but what it is given.
//
// # Goroutines
//
// Run's goroutine owns the Face and the screen. It starts one that passes the screen's events on, and one
// for each forced unlock; it waits for both before it returns. The model's Run is its caller's.
//
// # The terminal
//
// Run restores the terminal when it returns or panics, and before the process stops (Ctrl-Z). It draws everything
// anew when the process goes on.
package top
