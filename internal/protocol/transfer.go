package protocol

import "time"

// A lease that passes from one process to another: transfer.lua, resume.lua and takeback.lua. They
// are sent by their texts, since transfers are rare.

// TransferCall prolongs a lease for the last time, and gives its key the transfer value.
type TransferCall struct {
	Key, Owner, Value string
	TTL               time.Duration
	List              *List // nil where admission is off
}

// Eval returns the arguments of EVAL.
func (c TransferCall) Eval() []any {
	list := ""
	if c.List != nil {
		list = c.List.ID
	}
	return []any{Transfer.Text(), "2", c.Key, MembersKey, c.Owner, c.Value, Milliseconds(c.TTL), list}
}

// TakeBackCall gives the key back to the lease's owner.
type TakeBackCall struct{ Key, Value, Owner string }

// Args returns the arguments behind the script's text.
func (c TakeBackCall) Args() []any { return []any{"1", c.Key, c.Value, c.Owner} }

// ResumeCall gives the key of a lease that was transferred to its new owner.
type ResumeCall struct {
	Keys   *Keys
	Record any
	Value  string // the transfer value
	Owner  string // the new one
}

// Eval returns the arguments of EVAL.
func (c ResumeCall) Eval(s *Settings) []any {
	return []any{Resume.Text(), "2", c.Keys.Key, c.Record, c.Value, c.Owner, s.TTL, c.Keys.Stripe, s.Least}
}
