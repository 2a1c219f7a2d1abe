package pipe

import (
	"bytes"

	"github.com/gomodule/redigo/redis"
)

// Reply is a reply of a server. An integer, or a short text, is not made a value of its own, which would be
// allocated.
type Reply struct {
	Kind    ReplyKind
	Integer int64
	Text    []byte // of a Text; it is valid until the next reply is read
	value   any    // the reply as Receive gets it; nil for a null, and where Integer or Text is all there is
}

// ReplyKind is what a Reply is.
type ReplyKind int8

// The kinds of replies.
const (
	Other ReplyKind = iota // or a null
	Integer
	Text
)

// Set makes r of the value of a reply.
func (r *Reply) Set(value any) {
	*r = Reply{value: value}
	switch value := value.(type) {
	case int64:
		r.Kind, r.Integer = Integer, value
	case []byte:
		r.Kind, r.Text = Text, value
	}
}

// SetInteger makes r an integer.
func (r *Reply) SetInteger(n int64) { *r = Reply{Kind: Integer, Integer: n} }

// SetText makes r a text that is valid until the next reply is read.
func (r *Reply) SetText(text []byte) { *r = Reply{Kind: Text, Text: text} }

// Value returns the reply as redigo makes it: an int64, a []byte, a string of a status, a redis.Error, nil, or an
// array of these. It stays valid.
func (r *Reply) Value() any {
	switch {
	case r.value != nil:
		return r.value
	case r.Kind == Integer:
		return r.Integer
	case r.Kind == Text:
		return bytes.Clone(r.Text)
	}
	return nil
}

// Int64 returns an integer, and reads one from a text, as redis.Int64 does.
func (r *Reply) Int64() (int64, error) {
	if r.Kind == Integer {
		return r.Integer, nil
	}
	return redis.Int64(r.Value(), nil)
}

// QuickReceiver is a Receiver that reads replies where they are. Its Receive gets errors alone.
type QuickReceiver interface {
	Receiver

	// ReceiveQuick gets a reply that is no error. It must not keep r, or its Text.
	ReceiveQuick(r *Reply)
}

// QuickConn is a connection that hands out replies where they are. An error is one of Receive's. Once Send has returned,
// the connection keeps no argument of the command.
type QuickConn interface {
	ReceiveReply(r *Reply) error
}
