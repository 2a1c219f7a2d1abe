package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/endpoint"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
)

// nodeFacts are the facts about one node that doctor collects. The JSON names are stable.
type nodeFacts struct {
	Node     string      `json:"node"`
	Answers  bool        `json:"answers"`
	Error    string      `json:"error,omitempty"`
	Trip     roundTrips  `json:"round_trip"`
	Version  string      `json:"version"` // of Redis, or with which the server is compatible
	Server   serverFacts `json:"server"`
	Role     string      `json:"role"`
	RunID    string      `json:"run_id"`
	Uptime   float64     `json:"uptime_s"`
	Eviction string      `json:"eviction_policy"`
	RDB      string      `json:"rdb"` // "on", "off" or "unknown"
	AOF      string      `json:"aof"`
	Clock    clockFacts  `json:"clock"`
	Admitted admittance  `json:"admission"`

	err           error                // why it does not answer
	infoErr       error                // why it does not answer INFO
	hasNarrowKeys bool                 // the user may not use every key, and locks have no prefix
	killErr       error                // why a client cannot close its old connections there
	lacks         map[purpose][]string // missing rights, as ACL SETUSER takes them
	refusal       error                // the first other reason for which it does not do what a lock needs
	unknown       map[purpose][]string // commands that the server does not know
	info          map[string]string    // the fields of INFO
	host          string
	master        string          // its name in lists of masters, by the address that was given
	list          string          // the name of the list in which it stands, or stood last; "" if there is none
	expiry        endpoint.Expiry // of the certificates
	readings      []reading
	record        protocol.Memory         // by which the node votes
	limits        map[string]map[int]bool // by semaphore: how many permits its waiters say that it has
}

// roundTrips are of the samples, in milliseconds.
type roundTrips struct {
	Min    float64 `json:"min_ms"`
	Median float64 `json:"median_ms"`
	Max    float64 `json:"max_ms"`
}

// clockFacts compare a node's clock with this machine's.
type clockFacts struct {
	Known       bool    `json:"known"`
	Offset      float64 `json:"offset_ms"`       // the node's, less this machine's
	Drift       float64 `json:"drift_ppm"`       // how much faster it ran, while doctor looked
	Uncertainty float64 `json:"uncertainty_ppm"` // of the drift
}

// admittance is the node's right to vote, as its keys show it.
type admittance struct {
	State string  `json:"state"` // "votes", "waits", "new", "damaged", "other list" or "unknown"
	Left  float64 `json:"remaining_s"`
	Nodes int     `json:"nodes"` // N on its record
	TTL   float64 `json:"longest_ttl_s"`

	// Masters is the list of masters in which the node stands, or stood last; Self says which of them it is.
	Masters []string `json:"masters,omitempty"`
	Self    string   `json:"self,omitempty"`
	Error   string   `json:"error,omitempty"`
}

// reading is one look at a node's clock, and a round trip.
type reading struct {
	at     time.Duration // the middle of the round trip, since the examination began
	trip   time.Duration
	server time.Duration // the node's clock, since 1970; 0: unknown
}

// asker asks one node.
type asker struct {
	ctx     context.Context
	conn    redis.Conn
	timeout time.Duration // for one answer
	begun   time.Time
}

func (a *asker) do(command string, args ...any) (any, error) {
	return redis.DoWithTimeout(a.conn, a.timeout, command, args...)
}

// look is how to examine nodes.
type look struct {
	timeout time.Duration // for one answer
	window  time.Duration // for measurements
	trials  []trial       // of rights; none: only measure the node
	prefix  string        // of locks
}

// examine collects all facts about a node, reads its clock until the window is over, and tries
// the rights.
func examine(ctx context.Context, index int, url string, l look, begun time.Time) *nodeFacts {
	e, err := endpoint.Parse(url)
	f := &nodeFacts{Node: fmt.Sprintf("node %d (%s)", index, e.Address), RDB: "unknown", AOF: "unknown"}
	f.Admitted.State, f.Server.Support = "unknown", notKnown
	f.master = protocol.MasterName(e.Address)
	if f.host = e.Address; e.Network == "tcp" {
		f.host = e.Address[:strings.LastIndex(e.Address, ":")]
	}
	if err == nil {
		err = f.ask(ctx, e, l, begun)
	}
	if err != nil {
		f.err, f.Error = err, err.Error()
	}
	return f
}

func (f *nodeFacts) ask(ctx context.Context, e endpoint.Endpoint, l look, begun time.Time) error {
	dialling, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	conn, err := e.Connector().Connect(dialling)
	switch {
	case dialling.Err() != nil && err != nil:
		return fmt.Errorf("no connection in time: %w", err)
	case err != nil:
		return err
	}
	defer conn.Close()
	if len(l.trials) > 0 {
		f.expiry, _ = e.Expiry(dialling) // the connection above says what fails
	}
	a := &asker{ctx, conn, l.timeout, begun}
	// The trials show a MISCONF and a NOPERM.
	if _, err := a.do("PING"); err != nil && !node.IsCode(err, "MISCONF") && !node.IsCode(err, "NOPERM") {
		return fmt.Errorf("connected, but PING fails: %w", err)
	}
	f.Answers = true
	if err := f.identify(a); err != nil {
		return err
	}
	if f.info["redis_mode"] == "sentinel" {
		return errSentinel
	}
	if err := f.kill(a); err != nil {
		return err
	}
	if err := f.sample(a, l.window); err != nil {
		return err
	}
	f.admission(a) // after the window, since it shows how long a node waits from now on
	if len(l.trials) > 0 {
		if err := f.findLimits(a, l.prefix); err != nil {
			return err
		}
	}
	return f.try(a, l.trials)
}

// identify reads INFO, and the schedule of snapshots by CONFIG GET.
func (f *nodeFacts) identify(a *asker) error {
	text, err := redis.String(a.do("INFO"))
	if broken(err) {
		return err
	}
	f.infoErr = err
	f.info = make(map[string]string)
	for _, line := range strings.Split(text, "\r\n") {
		if key, value, ok := strings.Cut(line, ":"); ok {
			f.info[key] = value
		}
	}
	f.Version, f.Role, f.RunID = f.info["redis_version"], f.info["role"], f.info["run_id"]
	f.Server = serverOf(f.info)
	f.Uptime, _ = strconv.ParseFloat(f.info["uptime_in_seconds"], 64)
	f.Eviction = f.info["maxmemory_policy"]
	if enabled, known := f.info["aof_enabled"]; known {
		f.AOF = onOff(enabled == "1")
	}
	save, err := redis.StringMap(a.do("CONFIG", "GET", "save"))
	if schedule, known := save["save"]; known && err == nil {
		f.RDB = onOff(schedule != "")
	}
	return connectionOnly(err)
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// noConnection is an id that no connection has: servers count connections from 1.
const noConnection = math.MaxInt64

// kill checks the rights to close old connections. It closes none.
func (f *nodeFacts) kill(a *asker) error {
	for _, command := range [][]any{{"ID"}, {"KILL", "ID", int64(noConnection)}} {
		_, err := a.do("CLIENT", command...)
		if broken(err) {
			return err
		}
		if err != nil && f.killErr == nil && !strings.Contains(strings.ToLower(err.Error()), "no such client") {
			f.killErr = err
		}
	}
	return nil
}

// admission reads whether the node may vote, as docs/protocol.md describes it. It changes
// nothing.
func (f *nodeFacts) admission(a *asker) {
	if f.infoErr != nil {
		return // without INFO doctor does not know the run that other clients see
	}
	adm := &f.Admitted
	run := protocol.Run(cmp.Or(f.RunID, "unknown"))
	list, self, err := protocol.ReadList(a.do("HGETALL", protocol.MembersKey))
	if err != nil {
		adm.Error = err.Error()
		return
	}
	f.list, adm.Masters, adm.Self = list.ID, strings.Fields(list.Masters), self
	name, err := redis.String(a.do("HGET", run.Quarantine(), "name"))
	if errors.Is(err, redis.ErrNil) {
		adm.State = "new"
		return
	}
	record := run.Record(name)
	nodes, left := 0, int64(0)
	if err == nil {
		nodes, err = redis.Int(a.do("HGET", record, "nodes"))
	}
	switch {
	case err == nil:
		adm.State, adm.Nodes = "votes", nodes
		f.record, err = protocol.ReadMemory(a.do("HGETALL", record))
		adm.TTL = f.record.Longest.Seconds()
	case errors.Is(err, redis.ErrNil):
		adm.State = "waits"
		var used bool
		if used, err = f.used(a, run.Quarantine()); used {
			adm.State = "new" // its record was deleted: the next client begins a new quarantine
			break
		}
		if err == nil {
			left, err = redis.Int64(a.do("PTTL", run.Guard()))
			adm.Left = float64(max(left, 0)) / 1000
		}
	}
	if err != nil {
		adm.State, adm.Error = "unknown", err.Error()
	}
}

// used reports whether a client admitted the node after this quarantine.
func (f *nodeFacts) used(a *asker, quarantine string) (bool, error) {
	switch _, err := redis.String(a.do("HGET", quarantine, "used")); {
	case err == nil:
		return true, nil
	case errors.Is(err, redis.ErrNil):
		return false, nil
	default:
		return false, err
	}
}

// sampleInterval is the time between two readings of a clock.
const sampleInterval = 100 * time.Millisecond

// sample measures round trips and the clock until the window is over.
func (f *nodeFacts) sample(a *asker, window time.Duration) error {
	tick := time.NewTicker(sampleInterval)
	defer tick.Stop()
	for ends := time.Now().Add(window); ; {
		asked := time.Since(a.begun)
		parts, err := redis.Int64s(a.do("TIME"))
		trip := time.Since(a.begun) - asked
		if broken(err) {
			return fmt.Errorf("TIME: %w", err)
		}
		r := reading{at: asked + trip/2, trip: trip}
		if err == nil && len(parts) == 2 {
			r.server = time.Duration(parts[0])*time.Second + time.Duration(parts[1])*time.Microsecond
		}
		f.readings = append(f.readings, r)
		if time.Now().After(ends) {
			break
		}
		select {
		case <-tick.C:
		case <-a.ctx.Done():
			return a.ctx.Err()
		}
	}
	f.measure(a.begun)
	return nil
}

// measure computes the round trips, the offset and the drift from the readings. Of each
// half it uses the reading with the shortest trip, which is the most certain.
func (f *nodeFacts) measure(begun time.Time) {
	trips := make([]time.Duration, len(f.readings))
	for i, r := range f.readings {
		trips[i] = r.trip
	}
	slices.Sort(trips)
	f.Trip = roundTrips{ms(trips[0]), ms(trips[len(trips)/2]), ms(trips[len(trips)-1])}

	half := len(f.readings) / 2
	second := best(f.readings[half:])
	if second.server == 0 {
		return
	}
	f.Clock.Known = true
	f.Clock.Offset = ms(second.offset(begun))
	if first := best(f.readings[:max(half, 1)]); first.server != 0 && second.at > first.at {
		span := float64(second.at - first.at)
		f.Clock.Drift = float64(second.offset(begun)-first.offset(begun)) / span * 1e6
		f.Clock.Uncertainty = float64(first.trip+second.trip) / 2 / span * 1e6
	}
}

func best(readings []reading) reading {
	return slices.MinFunc(readings, func(a, b reading) int { return cmp.Compare(a.trip, b.trip) })
}

// offset returns the node's clock less this machine's, which is counted from begun on: a
// step of this machine's own clock since then does not matter.
func (r reading) offset(begun time.Time) time.Duration {
	return r.server - time.Duration(begun.UnixNano()) - r.at
}

func ms(d time.Duration) float64 { return math.Round(float64(d)/1e3) / 1e3 }

// broken reports whether a connection cannot be used any more: err is not a reply.
func broken(err error) bool {
	var reply redis.Error
	return err != nil && !errors.As(err, &reply) && !errors.Is(err, redis.ErrNil)
}

// connectionOnly drops errors that are replies.
func connectionOnly(err error) error {
	if broken(err) {
		return err
	}
	return nil
}
