package protocol

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

// TransferText is what the text says by which a lease passes from one process to another;
// docs/protocol.md has the format. Its strings may have any bytes.
type TransferText struct {
	Prefix string // of the keys
	Name   string
	Label  string // of the owner that transferred it
	Secret string // that the value of the lock's key is made of
	Token  int64
	Size   int   // nodes of the cluster
	Left   int64 // of the validity, in microseconds: no more than that

	Records []string // of the nodes that keep the lease
}

// textBody is a TransferText as JSON, which has text: there strings are bytes.
type textBody struct {
	Prefix  []byte   `json:"prefix,omitempty"`
	Name    []byte   `json:"name"`
	Label   []byte   `json:"label,omitempty"`
	Secret  []byte   `json:"secret"`
	Token   int64    `json:"token,omitempty"`
	Size    int      `json:"size"`
	Left    int64    `json:"left"`
	Records [][]byte `json:"records"`
}

// textBegin begins every text: people see what it is. A later format will have another number.
const textBegin = "redlock-lease-3."

// MaxTransferText is how long a text is at most.
const MaxTransferText = 64 << 10

// String returns the text.
func (l *TransferText) String() string {
	b := textBody{Prefix: []byte(l.Prefix), Name: []byte(l.Name), Label: []byte(l.Label), Secret: []byte(l.Secret), Token: l.Token, Size: l.Size, Left: l.Left}
	for _, record := range l.Records {
		b.Records = append(b.Records, []byte(record))
	}
	body, err := json.Marshal(b)
	if err != nil {
		panic(err) // there is nothing in it that JSON does not have
	}
	sum := crc32.ChecksumIEEE(body)
	return fmt.Sprintf("%s%08x.%s", textBegin, sum, base64.RawURLEncoding.EncodeToString(body))
}

var (
	errNoText  = fmt.Errorf("it does not begin with %q", textBegin)
	errTooLong = errors.New("it is too long")
	errDamaged = errors.New("it is damaged, or cut off")
	errEmpty   = errors.New("it names no lock, no secret or no nodes")
)

// ParseTransferText reads a text. White space around it does not matter. The error does not repeat the text: a process that
// has it can take the lock.
func ParseTransferText(text string) (*TransferText, error) {
	text = strings.TrimSpace(text)
	if len(text) > MaxTransferText {
		return nil, errTooLong
	}
	rest, found := strings.CutPrefix(text, textBegin)
	if !found {
		return nil, errNoText
	}
	sum, encoded, _ := strings.Cut(rest, ".")
	decoded, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || sum != fmt.Sprintf("%08x", crc32.ChecksumIEEE(decoded)) {
		return nil, errDamaged
	}
	var b textBody
	d := json.NewDecoder(bytes.NewReader(decoded))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil || d.More() {
		return nil, errDamaged
	}
	l := &TransferText{Prefix: string(b.Prefix), Name: string(b.Name), Label: string(b.Label), Secret: string(b.Secret),
		Token: b.Token, Size: b.Size, Left: b.Left}
	for _, record := range b.Records {
		l.Records = append(l.Records, string(record))
	}
	if l.Name == "" || l.Secret == "" || l.Size < 1 || len(l.Records) < 1 {
		return nil, errEmpty
	}
	if l.Left < 0 || time.Duration(l.Left) > time.Duration(1<<63-1)/time.Microsecond {
		return nil, errDamaged
	}
	return l, nil
}
