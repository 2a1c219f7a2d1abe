package protocol

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Which masters may vote: probe.lua, look.lua, admit.lua, level.lua and record.lua. The last three are sent by their
// texts, since admission is rare.

// Run is the name of one run of a server. Its admission has keys of its own.
type Run string

// Quarantine returns the key of the hash that names the run's quarantine, and the record after it.
func (r Run) Quarantine() string { return Key("quarantine", string(r)) }

// Guard returns the key that exists while the server must not vote.
func (r Run) Guard() string { return Key("guard", string(r)) }

// Record returns the key of the run's record after a quarantine of this name. So a right to vote that is older than a
// loss of memory names a record that does not exist any more.
func (r Run) Record(quarantine string) string { return Key("record", string(r)) + ":" + quarantine }

// MemoryOf returns what is the same in all records that a server has until it loses its memory: a record gets another name with
// another list of masters (install.lua).
func MemoryOf(record string) string {
	memory, _, _ := strings.Cut(record, ".")
	return memory
}

// RunOf returns the run of a record, by the record's key.
func RunOf(record string) Run {
	run, _, _ := strings.Cut(strings.TrimPrefix(record, Key("record", "")), ":")
	return Run(run)
}

// eval returns the arguments of EVAL.
func eval(s *Script, keys []any, args ...any) []any {
	return slices.Concat([]any{s.Text(), len(keys)}, keys, args)
}

// ProbeCall asks a server whether it may vote, and puts it in quarantine if it may not yet.
type ProbeCall struct {
	Run     Run
	Orphan  any // the key of a record that was found missing: counters that stand there are removed; nil: none
	Nodes   int
	Longest time.Duration // the longest ttl that the client uses; 0: none
	Guard   time.Duration // the least length of the quarantine: a shorter one begins anew
	Default time.Duration // of a quarantine where there has been none, not less than Guard
	Name    string        // of a new quarantine; no other has it
}

// Call returns the call of the script.
func (c ProbeCall) Call() Call {
	keys := []any{c.Run.Quarantine(), c.Run.Guard(), FormatKey, MembersKey}
	if c.Orphan != nil {
		keys = append(keys, c.Orphan)
	}
	args := append([]any{len(keys)}, keys...)
	return Call{Probe, append(args, c.Run.Record(""), c.Nodes, c.Longest.Milliseconds(), c.Guard.Milliseconds(), c.Name, c.Default.Milliseconds())}
}

// LookCall asks a server to do all that a mutex needs, at a key of the library's own.
func LookCall() Call { return Call{Look, []any{1, LookKey}} }

// ProbeReply is a server's answer to a ProbeCall: one of the three is set.
type ProbeReply struct {
	Whole  *Whole
	Barred *Barred
	Format bool          // clients of another format keep their keys there
	Time   time.Duration // the server's clock, since 1970; 0 with Format
	List   List          // in which the server stands or, in quarantine, stood last; zero: it has stood in none
	Self   string        // which of the list's masters it is; "": none
}

// Whole is a server that has a record.
type Whole struct {
	Record  string // its key
	Nodes   int    // of the cluster
	Longest time.Duration
}

// Barred is a server that must not vote yet.
type Barred struct {
	Quarantine  string        // its name
	Left, Guard time.Duration // 0 left: it is over, and no client has let the server vote since
	First       string        // the name of the first quarantine since the loss: it may have begun anew
}

// ReadProbe reads the answer to a ProbeCall.
func ReadProbe(reply any, err error) (ProbeReply, error) {
	values, err := redis.Values(reply, err)
	if err == nil && len(values) == 0 {
		err = errors.New("unexpected reply to the probe: nothing")
	}
	if err != nil {
		return ProbeReply{}, err
	}
	var number, ms, now int64
	var r ProbeReply
	word, _ := redis.String(values[0], nil)
	if word == "format" {
		return ProbeReply{Format: true}, nil
	}
	rest, err := redis.Scan(values[1:], &now, &r.List.ID, &r.List.Masters, &r.Self)
	if err != nil {
		return r, err
	}
	r.Time = milliseconds(now)
	if word == "whole" {
		r.Whole = &Whole{}
		_, err = redis.Scan(rest, &r.Whole.Record, &number, &ms)
		r.Whole.Nodes, r.Whole.Longest = int(number), milliseconds(ms)
		return r, err
	}
	r.Barred = &Barred{}
	_, err = redis.Scan(rest, &r.Barred.Quarantine, &number, &ms, &r.Barred.First)
	r.Barred.Left, r.Barred.Guard = milliseconds(number), milliseconds(ms)
	return r, err
}

func milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// AdmitCall lets a server vote, with the counters that the client has collected after its quarantine.
type AdmitCall struct {
	Run        Run
	Quarantine string // its name
	Older      string // the key of the record before this one, which is deleted; "": none
	OlderRun   Run    // of that record
	Nodes      int
	Longest    time.Duration // the longest ttl on record
	Together   string        // the first quarantines of the servers that lost their memory with this one, with spaces between; "": none did
	List       List          // in which the server stands from then on
	Self       string        // which of its masters the server is
	Seal       string        // that the server must have, if it has stood in no list
	Before     string        // the list that it remembers; "": none
	Choice     Choice        // of the list after this one, as other servers remember it
	Counts     [Stripes]int64
}

// Eval returns the arguments of EVAL.
func (c AdmitCall) Eval() []any {
	record, older, olderQuarantine := c.Run.Record(c.Quarantine), c.Older, c.OlderRun.Quarantine()
	if older == "" {
		older, olderQuarantine = record, c.Run.Quarantine() // these stay
	}
	return append(eval(Admit, []any{record, c.Run.Guard(), c.Run.Quarantine(), NewestKey, older, olderQuarantine, FormatKey, MembersKey, SealKey, SettlingKey},
		c.Quarantine, c.Nodes, c.Longest.Milliseconds(), c.Together, c.List.ID, c.List.Masters, c.Self, c.Seal, c.Before,
		c.Choice.Promised, c.Choice.Accepted, c.Choice.Proposal), counters(&c.Counts)...)
}

func counters(counts *[Stripes]int64) []any {
	args := make([]any, Stripes)
	for i, count := range counts {
		args[i] = count
	}
	return args
}

// ReadAdmit reads the answer to an AdmitCall: whether the server has a record now.
func ReadAdmit(reply any, err error) (bool, error) {
	admitted, err := redis.Int(reply, err)
	return admitted != 0, err
}

// LevelCall raises the counters of a record.
type LevelCall struct {
	Record any // its key
	Counts [Stripes]int64
}

// Eval returns the arguments of EVAL.
func (c LevelCall) Eval() []any { return eval(Level, []any{c.Record}, counters(&c.Counts)...) }

// RecordCall reads the record by which a server votes, or how it waits for one.
type RecordCall struct{ Run Run }

// Eval returns the arguments of EVAL.
func (c RecordCall) Eval() []any {
	return eval(Record, []any{c.Run.Quarantine(), c.Run.Guard(), MembersKey}, c.Run.Record(""))
}

// Standing is a server's answer to a RecordCall.
type Standing struct {
	Memory        // Nodes is "" without a record
	List   List   // in which it stands or, without a record, stood last; zero: it has stood in none
	Self   string // which of the list's masters it is; "": none
	Choice Choice // of the list after that

	// Of a server without a record:
	Looked     bool          // whether a client has looked at it since it lost its memory
	Quarantine string        // its name
	First      string        // its first quarantine since then
	Left       time.Duration // of its quarantine
	Guard      time.Duration // of its quarantine
}

// ReadStanding reads the answer to a RecordCall.
func ReadStanding(reply any, err error) (Standing, error) {
	fields, err := redis.StringMap(reply, err)
	if err != nil {
		return Standing{}, err
	}
	s := Standing{Memory: memory(fields), Quarantine: fields["name"], First: fields["first"]}
	s.List, s.Self = listOf(fields)
	s.Choice = Choice{fields["promised"], fields["accepted"], fields["proposal"]}
	ms, err := strconv.ParseInt(fields["left"], 10, 64)
	s.Looked, s.Left = err == nil, milliseconds(ms)
	if ms, err := strconv.ParseInt(fields["guard"], 10, 64); err == nil {
		s.Guard = milliseconds(ms)
	}
	return s, nil
}

// Memory is a record: what a server may vote by.
type Memory struct {
	Nodes    string // of the cluster; "": it is no record
	Longest  time.Duration
	Together string         // as in AdmitCall
	Seal     string         // as in AdmitCall, with Together
	Counts   [Stripes]int64 // -1 where there is no number
}

// ReadMemory reads the answer to HGETALL of a record.
func ReadMemory(reply any, err error) (Memory, error) {
	fields, err := redis.StringMap(reply, err)
	return memory(fields), err
}

func memory(fields map[string]string) Memory {
	m := Memory{Nodes: fields["nodes"], Together: fields["together"], Seal: fields["seal"]}
	if ms, err := strconv.ParseInt(fields["ttl"], 10, 64); err == nil {
		m.Longest = milliseconds(ms)
	}
	for i := range m.Counts {
		count, err := strconv.ParseInt(fields[stripes[i].(string)], 10, 64)
		if err != nil {
			count = -1
		}
		m.Counts[i] = count
	}
	return m
}

// IsOf reports whether it is the record of a cluster of so many nodes.
func (m *Memory) IsOf(nodes int) bool { return m.Nodes == strconv.Itoa(nodes) }

// IsExplained reports whether all counts of a record are numbers between the least that counters begin
// with and the greatest that a clock explains. It reports true where there is no record.
func (m *Memory) IsExplained(greatest int64) bool {
	if m.Nodes == "" {
		return true
	}
	for _, count := range m.Counts {
		if count < FirstCount || count > greatest {
			return false
		}
	}
	return true
}
