// Package browser looks at the page of package redlockweb with a real browser: Chromium, without a window.
//
// Its tests run with REDLOCK_LONG=1, and are skipped with a word where there is no browser. Each has embedded
// nodes, a server and a browser of its own.
//
// TestPictures writes the pictures of the page for the README, with -pictures=DIRECTORY: make pictures.
package browser
