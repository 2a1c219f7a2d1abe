// Package handoff writes and reads the text by which a lease passes from one process to another. It
// knows nothing of nodes; docs/protocol.md has the format.
package handoff

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"
)

// Lease is a lease that was handed off.
type Lease struct {
	Prefix string `json:"prefix,omitempty"` // of the keys
	Name   string `json:"name"`
	Owner  string `json:"owner"`
	Token  int64  `json:"token,omitempty"`
	Size   int    `json:"size"` // nodes of the cluster
	Left   int64  `json:"left"` // of the validity, in microseconds: no more than that

	// Ends is the end of the validity by the clock of each node that keeps the lease, in microseconds
	// since 1970, by the node's record.
	Ends map[string]int64 `json:"ends"`
}

// begin begins every text: people see what it is. A later format will have another number.
const begin = "redlock-lease-1."

// maxLength is how long a text is at most: one of 99 nodes has less than half of it.
const maxLength = 64 << 10

// String returns the text.
func (l *Lease) String() string {
	body, err := json.Marshal(l)
	if err != nil {
		panic(err) // there is nothing in it that JSON does not have
	}
	sum := crc32.ChecksumIEEE(body)
	return fmt.Sprintf("%s%08x.%s", begin, sum, base64.RawURLEncoding.EncodeToString(body))
}

var (
	errNoText  = fmt.Errorf("it does not begin with %q", begin)
	errTooLong = errors.New("it is too long")
	errDamaged = errors.New("it is damaged, or cut off")
	errEmpty   = errors.New("it names no lock, no owner or no nodes")
)

// Parse reads a text. White space around it does not matter. The error does not repeat the text: a process that
// has it can take the lock.
func Parse(text string) (*Lease, error) {
	text = strings.TrimSpace(text)
	if len(text) > maxLength {
		return nil, errTooLong
	}
	rest, found := strings.CutPrefix(text, begin)
	if !found {
		return nil, errNoText
	}
	sum, encoded, _ := strings.Cut(rest, ".")
	body, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || sum != fmt.Sprintf("%08x", crc32.ChecksumIEEE(body)) {
		return nil, errDamaged
	}
	l := new(Lease)
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(l); err != nil || d.More() {
		return nil, errDamaged
	}
	if l.Name == "" || l.Owner == "" || l.Size < 1 || len(l.Ends) < 1 {
		return nil, errEmpty
	}
	if l.Left < 0 || time.Duration(l.Left) > time.Duration(1<<63-1)/time.Microsecond {
		return nil, errDamaged
	}
	return l, nil
}
