package protocol

import (
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"
)

// What operators ask and do: inspect.lua, inspectslots.lua, ask.lua, seize.lua and wake.lua.

// Inspection is what stands at a server for a lock.
type Inspection struct {
	Holder    string        // the key's value; "" without a key, and EmptyHolder for an empty value
	Remaining time.Duration // Endless if the key has no end
	Count     int64         // of grants
	Queue     []Ticket      // in turn
	Readers   []Share       // those that hold the lock for longest
	Time      time.Duration // the server's clock, since 1970
	Slots     []Slot        // of the semaphore of this name, those that have a key
}

// Share is a reader that holds the lock at a server.
type Share struct {
	Owner     string
	Remaining time.Duration
}

// Ticket is a waiter's place in a server's queue.
type Ticket struct{ Ticket, Label string }

// Slot is what stands at a server for a slot of a semaphore.
type Slot struct {
	Number    int
	Value     string        // of its key, as Inspection has it
	Remaining time.Duration // Endless if the key has no end
	Count     int64         // of grants
}

// Call is a call of a script.
type Call struct {
	script *Script
	args   []any // how many keys there are, the keys, and the script's arguments
}

// Eval returns the arguments of EVAL.
func (c Call) Eval() []any { return append([]any{c.script.Text()}, c.args...) }

// EvalSHA returns the arguments of EVALSHA, for a server that has the script.
func (c Call) EvalSHA() []any { return append([]any{c.script.SHA()}, c.args...) }

// InspectCall asks a server what stands there for a lock. record is the key of the server's record.
func InspectCall(prefix, name string, record any) Call {
	queue, readers, key := KeysBeside(prefix, name)
	return Call{Inspect, []any{4, key, record, queue, readers, StripeArg(key)}}
}

// ReadInspection reads the answer to an InspectCall.
func ReadInspection(reply any, err error) (Inspection, error) {
	parts, err := redis.Values(reply, err)
	if err != nil {
		return Inspection{}, err
	}
	var value, count string
	var ms, now int64
	var queue, shares []string
	if _, err := redis.Scan(parts, &value, &ms, &count, &queue, &shares, &now); err != nil {
		return Inspection{}, fmt.Errorf("unexpected reply to inspect: %w", err)
	}
	found := Inspection{Holder: foundHolder(value, ms), Remaining: Remaining(ms), Time: Remaining(now)}
	for i := 0; i+1 < len(shares); i += 2 {
		left, _ := strconv.ParseInt(shares[i+1], 10, 64)
		found.Readers = append(found.Readers, Share{shares[i], Remaining(left)})
	}
	found.Count, _ = strconv.ParseInt(count, 10, 64)
	for i := 0; i+1 < len(queue); i += 2 {
		found.Queue = append(found.Queue, Ticket{queue[i], queue[i+1]})
	}
	return found, nil
}

// SlotsCall asks a server what stands there for the semaphore of a name.
func SlotsCall(prefix, name string, record any) Call {
	queue, base := SlotKeys(prefix, name)
	return Call{InspectSlots, []any{2, queue, record, base, MaxPermits, StripeArg(base + "0")}}
}

// AddSlots adds what the answer to a SlotsCall shows. It returns the error that came in its place.
func (i *Inspection) AddSlots(reply any, err error) error {
	parts, err := redis.Values(reply, err)
	if err != nil {
		return err
	}
	var queue, slots []string
	if _, err := redis.Scan(parts, &queue, &slots); err != nil {
		return fmt.Errorf("unexpected reply to inspectslots: %w", err)
	}
	for ; len(queue) >= 2; queue = queue[2:] {
		i.Queue = append(i.Queue, Ticket{queue[0], queue[1]})
	}
	for ; len(slots) >= 4; slots = slots[4:] {
		number, err := strconv.Atoi(slots[0])
		left, errLeft := strconv.ParseInt(slots[2], 10, 64)
		if err != nil || errLeft != nil || number < 0 || number >= MaxPermits {
			return fmt.Errorf("unexpected reply to inspectslots: slot %.20q, %.20q ms", slots[0], slots[2])
		}
		s := Slot{Number: number, Value: foundHolder(slots[1], left), Remaining: Remaining(left)}
		s.Count, _ = strconv.ParseInt(slots[3], 10, 64)
		i.Slots = append(i.Slots, s)
	}
	return nil
}

// AskCall has a server tell the holder of a lock that somebody wants it.
type AskCall struct{ Key string }

// Eval returns the arguments of EVAL.
func (c AskCall) Eval() []any { return eval(Ask, []any{c.Key, AskedKey(c.Key)}) }

// WakeCall has a server wake the first waiter of a semaphore, by the semaphore's key.
type WakeCall struct{ Semaphore string }

// Eval returns the arguments of EVAL.
func (c WakeCall) Eval() []any {
	queue, base := SlotKeys("", c.Semaphore)
	return eval(Wake, []any{queue}, base, MaxPermits)
}

// SeizeCall takes a lock at a server from the holders that the caller found.
type SeizeCall struct {
	Keys         *Keys
	Record       any
	Owner        string
	Values       []any         // of the lock's key, which may be replaced
	ReadersUntil time.Duration // until then, by the server's clock, readers may be replaced; 0: they may not
}

// Eval returns the arguments of EVAL.
func (c SeizeCall) Eval(s *Settings) []any {
	keys := []any{c.Keys.Key, c.Record, c.Keys.Queue}
	return append(eval(Seize, keys, c.Owner, s.TTL, c.Keys.Stripe, s.Least, c.ReadersUntil.Milliseconds()), c.Values...)
}
