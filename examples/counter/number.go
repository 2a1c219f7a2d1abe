package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// readNumber reads the file's number.
func readNumber(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	number, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("%s holds no number: %w", path, err)
	}
	return number, nil
}

// writeNumber replaces the file's number.
func writeNumber(path string, number int) error {
	return os.WriteFile(path, fmt.Appendln(nil, number), 0o644)
}

// startAtZero creates the file, or sets one that has a number to 0. It returns an error for
// any other file, which it does not change.
func startAtZero(path string) error {
	if _, err := readNumber(path); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("refusing to overwrite: %w", err)
	}
	return writeNumber(path, 0)
}
