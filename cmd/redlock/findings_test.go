package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/endpoint"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

// healthy returns the facts of n nodes without any fault.
func healthy(n int) *examination {
	x := &examination{Quorum: n/2 + 1, limits: (&doctorFlags{ttl: 10 * time.Second, offset: time.Second, drift: 10000}).limits(&settings{})}
	for i := range n {
		x.Nodes = append(x.Nodes, &nodeFacts{
			Node: fmt.Sprintf("node %d", i), Answers: true, Server: serverOf(map[string]string{"redis_version": "7.0.15"}), Role: "master", RunID: fmt.Sprint("run", i),
			Uptime: 3600, Eviction: "noeviction", RDB: "on", AOF: "on", host: fmt.Sprint("host", i),
			Trip:     roundTrips{1, 1, 1},
			Clock:    clockFacts{Known: true},
			Admitted: admittance{State: "votes", Nodes: n, TTL: 10},
			info:     map[string]string{"uptime_in_seconds": "3600"},
		})
	}
	return x
}

// haveList gives all nodes one list of masters.
func haveList(x *examination, name string, masters ...string) {
	for _, f := range x.Nodes {
		f.list, f.Admitted.Masters = name, masters
	}
}

// codes returns the findings, as severity and code.
func (x *examination) codes() []string {
	var all []string
	for _, f := range x.Findings {
		all = append(all, string(f.Severity)+" "+f.Code)
	}
	return all
}

// Each has the remedy that helps.
func TestWhatAServerSaysHasItsRemedy(t *testing.T) {
	for remedy, err := range map[string]error{
		"protected-mode no":      redis.Error("DENIED Redis is running in protected mode"),
		"raise maxclients":       redis.Error("ERR max number of clients reached"),
		"wait until it has read": redis.Error("LOADING Redis is loading the dataset in memory"),
		"SENTINEL":               errSentinel,
		"redis:// URL":           &endpoint.TLSError{Why: io.EOF},
		"rediss:// URL":          syscall.EPIPE,
		"--tls-ca":               &endpoint.TLSError{Why: x509.UnknownAuthorityError{}},
	} {
		x := healthy(3)
		x.Nodes[1].err, x.Nodes[1].Answers = err, false
		x.judge()
		require.Len(t, x.Findings, 1)
		require.Contains(t, x.Findings[0].Remedy, remedy)
		require.NotContains(t, x.Findings[0].Remedy, "start the server")
	}
}

func TestHealthyNodesGiveNoFinding(t *testing.T) {
	for _, n := range []int{3, 5, 7} {
		x := healthy(n)
		x.judge()
		assert.Empty(t, x.Findings)
		assert.Contains(t, x.verdict(false), fmt.Sprintf("No danger. %d of %d nodes are fit, %d must be; %d more may fail.", n, n, n/2+1, n/2))
	}
}

func TestEveryFaultHasItsFinding(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(x *examination, f *nodeFacts)
		want  []string
	}{
		"silence":     {func(_ *examination, f *nodeFacts) { f.err = errors.New("refused") }, []string{"danger unreachable"}},
		"password":    {func(_ *examination, f *nodeFacts) { f.err = redis.Error("WRONGPASS no") }, []string{"danger password"}},
		"no password": {func(_ *examination, f *nodeFacts) { f.err = fmt.Errorf("ping: %w", redis.Error("NOAUTH no")) }, []string{"danger password"}},
		"old AUTH":    {func(_ *examination, f *nodeFacts) { f.err = redis.Error("ERR invalid password") }, []string{"danger password"}},
		"AUTH withheld": {func(_ *examination, f *nodeFacts) {
			f.err = fmt.Errorf("cannot log in: %w", redis.Error("ERR invalid password (the text is not shown)"))
		}, []string{"danger password"}},
		"protected mode": {func(_ *examination, f *nodeFacts) {
			f.err = fmt.Errorf("PING fails: %w", redis.Error("DENIED Redis is running in protected mode because …"))
		}, []string{"danger protected-mode"}},
		"no room": {func(_ *examination, f *nodeFacts) {
			f.err = fmt.Errorf("PING fails: %w", redis.Error("ERR max number of clients reached"))
		}, []string{"danger max-clients"}},
		"loading": {func(_ *examination, f *nodeFacts) {
			f.err = fmt.Errorf("PING fails: %w", redis.Error("LOADING Redis is loading the dataset in memory"))
		}, []string{"danger loading"}},
		"sentinel":            {func(_ *examination, f *nodeFacts) { f.err = errSentinel }, []string{"danger sentinel"}},
		"TLS at a plain port": {func(_ *examination, f *nodeFacts) { f.err = &endpoint.TLSError{Why: io.EOF} }, []string{"danger tls"}},
		"a bad certificate": {func(_ *examination, f *nodeFacts) {
			f.err = &endpoint.TLSError{Why: x509.UnknownAuthorityError{}}
		}, []string{"danger tls"}},
		"no TLS at a port with it": {func(_ *examination, f *nodeFacts) {
			f.err, f.Answers = fmt.Errorf("PING fails: %w", syscall.ECONNRESET), false
		}, []string{"danger no-redis"}},
		"no Redis":        {func(_ *examination, f *nodeFacts) { f.err, f.Answers = &endpoint.BadReplyError{}, false }, []string{"danger no-redis"}},
		"an end, later":   {func(_ *examination, f *nodeFacts) { f.err, f.Answers = io.EOF, true }, []string{"danger unreachable"}},
		"no INFO":         {func(_ *examination, f *nodeFacts) { f.infoErr = redis.Error("NOPERM") }, []string{"warning no-info"}},
		"replica":         {func(_ *examination, f *nodeFacts) { f.Role = "slave" }, []string{"danger replica"}},
		"new word for it": {func(_ *examination, f *nodeFacts) { f.Role = "replica" }, []string{"danger replica"}},
		"other role":      {func(_ *examination, f *nodeFacts) { f.Role = "active-replica" }, []string{"danger role"}},
		"no role":         {func(_ *examination, f *nodeFacts) { f.Role = "" }, nil},
		"no run_id":       {func(_ *examination, f *nodeFacts) { f.RunID = "" }, []string{"warning no-run-id"}},
		"no CLIENT KILL":  {func(_ *examination, f *nodeFacts) { f.killErr = redis.Error("NOPERM") }, []string{"warning no-kill"}},
		"full memory": {func(_ *examination, f *nodeFacts) {
			f.refusal, f.info["used_memory"], f.info["maxmemory"] = redis.Error("OOM no"), "100", "100"
		}, []string{"danger full"}},
		"nearly full memory": {func(_ *examination, f *nodeFacts) {
			f.info["used_memory"], f.info["maxmemory"] = "95", "100"
		}, []string{"warning memory"}},
		"a failed snapshot": {func(_ *examination, f *nodeFacts) {
			f.refusal, f.info["rdb_last_bgsave_status"] = redis.Error("MISCONF snapshots"), "err"
		}, []string{"danger save-fails"}},
		"a failed AOF": {func(_ *examination, f *nodeFacts) {
			f.refusal = redis.Error("MISCONF Errors writing to the AOF file: no")
		}, []string{"danger aof-fails"}},
		"missing replicas":            {func(_ *examination, f *nodeFacts) { f.refusal = redis.Error("NOREPLICAS no") }, []string{"danger no-replicas"}},
		"a script without end":        {func(_ *examination, f *nodeFacts) { f.err = redis.Error("BUSY no") }, []string{"danger busy"}},
		"an answer that nobody knows": {func(_ *examination, f *nodeFacts) { f.err = redis.Error("ERR no") }, []string{"danger refuses"}},
		"a majority that refuses": {func(x *examination, f *nodeFacts) {
			f.refusal, x.Nodes[0].refusal = redis.Error("NOREPLICAS no"), redis.Error("OOM no")
		}, []string{"danger full", "danger no-replicas", "danger no-quorum"}},
		"no right": {func(_ *examination, f *nodeFacts) {
			f.lacks = map[purpose][]string{forMutexes: {"+zadd"}}
		}, []string{"danger no-rights"}},
		"no right for readers": {func(_ *examination, f *nodeFacts) {
			f.lacks = map[purpose][]string{forReaders: {"+zscore"}}
		}, []string{"warning no-readers"}},
		"an old SET": {func(_ *examination, f *nodeFacts) {
			f.lacks = map[purpose][]string{forReaders: {pxat}}
		}, []string{"warning no-readers"}},
		"no right for sets": {func(_ *examination, f *nodeFacts) {
			f.lacks = map[purpose][]string{forSets: {"~redlock::wants:*"}}
		}, []string{"warning no-sets"}},
		"no right for sets, nor for mutexes": {func(_ *examination, f *nodeFacts) {
			f.lacks = map[purpose][]string{forMutexes: {"~redlock::*"}, forSets: {"~redlock::wants:*"}}
		}, []string{"danger no-rights"}},
		"no right for permits": {func(_ *examination, f *nodeFacts) {
			f.lacks = map[purpose][]string{forPermits: {"~redlock::slots:*"}}
		}, []string{"warning no-permits"}},
		"no right for permits, nor for mutexes": {func(_ *examination, f *nodeFacts) {
			f.lacks = map[purpose][]string{forMutexes: {"~redlock::*"}, forPermits: {"~redlock::slots:*"}}
		}, []string{"danger no-rights"}},
		"no right for holders that are told": {func(_ *examination, f *nodeFacts) {
			f.lacks = map[purpose][]string{forWanted: {"~redlock::asked:*"}}
		}, []string{"warning no-wanted"}},
		"no right to list": {func(_ *examination, f *nodeFacts) {
			f.lacks = map[purpose][]string{forLists: {"+scan"}}
		}, []string{"note no-lists"}},
		"no wake-ups": {func(_ *examination, f *nodeFacts) {
			f.lacks = map[purpose][]string{forWakeUps: {"+publish"}}
		}, []string{"note no-wake-ups"}},
		"not told of the end of waiters": {func(_ *examination, f *nodeFacts) {
			f.lacks = map[purpose][]string{forWakeUps: {"+pubsub|numsub"}}
		}, []string{"note no-wake-ups"}},
		"two without a right": {func(x *examination, f *nodeFacts) {
			f.lacks = map[purpose][]string{forMutexes: {"~redlock::*"}}
			x.Nodes[0].lacks = f.lacks
		}, []string{"danger no-rights", "danger no-rights", "danger no-quorum"}},
		"two without a right for readers": {func(x *examination, f *nodeFacts) {
			f.lacks = map[purpose][]string{forReaders: {"+zscore"}}
			x.Nodes[0].lacks = f.lacks
		}, []string{"warning no-readers", "warning no-readers"}},
		"cluster":           {func(_ *examination, f *nodeFacts) { f.info["cluster_enabled"] = "1" }, []string{"danger cluster-mode"}},
		"replicas":          {func(_ *examination, f *nodeFacts) { f.info["connected_slaves"] = "2" }, []string{"warning has-replicas"}},
		"cluster of Valkey": {func(_ *examination, f *nodeFacts) { f.info["server_mode"] = "cluster" }, []string{"danger cluster-mode"}},
		"old":               {plant(map[string]string{"redis_version": "5.0.7"}), []string{"warning version"}},
		"new version":       {plant(map[string]string{"redis_version": "8.2.0"}), []string{"note version"}},
		"another program":   {plant(map[string]string{"redis_version": "7.4.0", "dragonfly_version": "df-v1.40.1"}), []string{"warning server"}},
		"an untested one":   {plant(map[string]string{"redis_version": "6.3.4", "mvcc_depth": "0"}), []string{"note server"}},
		"eviction":          {func(_ *examination, f *nodeFacts) { f.Eviction = "allkeys-lru" }, []string{"danger eviction"}},
		"full":              {func(_ *examination, f *nodeFacts) { f.info["used_memory"], f.info["maxmemory"] = "95", "100" }, []string{"warning memory"}},
		"saves fail":        {func(_ *examination, f *nodeFacts) { f.info["rdb_last_bgsave_status"] = "err" }, []string{"danger save-fails"}},
		"other list":        {func(_ *examination, f *nodeFacts) { f.Admitted.Nodes = 5 }, []string{"danger other-list"}},
		"a master of another list": {func(x *examination, f *nodeFacts) {
			haveList(x, "x", "a", "b", "c")
			f.list, f.Admitted.Masters = "y", []string{"a", "b", "d"}
		}, []string{"danger other-list"}},
		"no master of the list": {func(x *examination, f *nodeFacts) {
			haveList(x, "x", "a", "b", "c")
			f.list, f.Admitted = "", admittance{State: "waits"}
			f.master = "d"
		}, []string{"danger other-list"}},
		"new in the list": {func(x *examination, f *nodeFacts) {
			haveList(x, "x", "a", "b", "c")
			f.list, f.Admitted = "", admittance{State: "waits"}
			f.master = "c"
		}, []string{"warning not-admitted"}},
		"no rights": {func(_ *examination, f *nodeFacts) { f.Admitted.State = "unknown" }, []string{"warning admission-unknown"}},
		"foreign keys": {func(_ *examination, f *nodeFacts) {
			f.Admitted = admittance{State: "unknown", Error: "WRONGTYPE Operation against a key holding the wrong kind of value"}
		}, []string{"danger foreign-keys"}},
		"new":     {func(_ *examination, f *nodeFacts) { f.Admitted = admittance{State: "new"} }, []string{"warning not-admitted"}},
		"damaged": {func(_ *examination, f *nodeFacts) { f.Admitted.State = "damaged" }, []string{"warning damaged"}},
		"two damaged": {func(x *examination, f *nodeFacts) {
			f.Admitted.State, x.Nodes[0].Admitted.State = "damaged", "damaged"
		}, []string{"danger damaged", "danger damaged", "danger no-quorum"}},
		"damaged, and one waits": {func(x *examination, f *nodeFacts) {
			f.Admitted.State, x.Nodes[0].Admitted = "damaged", admittance{State: "waits", Left: 3}
		}, []string{"danger damaged", "warning no-quorum-yet"}},
		"young":          {func(_ *examination, f *nodeFacts) { f.Uptime = 9 }, []string{"warning young"}},
		"young for that": {func(x *examination, f *nodeFacts) { f.Uptime, x.Nodes[0].Admitted.TTL = 30, 60 }, []string{"warning young"}},
		"slow":           {func(_ *examination, f *nodeFacts) { f.Trip.Median = 101 }, []string{"warning slow"}},
		"too slow":       {func(_ *examination, f *nodeFacts) { f.Trip.Median = 501 }, []string{"danger slow"}},
		"twins":          {func(x *examination, f *nodeFacts) { f.RunID = x.Nodes[0].RunID }, []string{"danger duplicate"}},
		"clock ahead":    {func(_ *examination, f *nodeFacts) { f.Clock.Offset = 1100 }, []string{"warning clock-offset"}},
		"clock behind":   {func(_ *examination, f *nodeFacts) { f.Clock.Offset = -1e9 }, []string{"warning clock-offset"}},
		"ahead of one other": {func(x *examination, f *nodeFacts) {
			f.Clock.Offset, x.Nodes[0].Clock.Known = 5000, false
		}, []string{"warning clock-offset"}},
		"clock rate":     {func(_ *examination, f *nodeFacts) { f.Clock.Drift, f.Clock.Uncertainty = -12000, 100 }, []string{"danger clock-rate"}},
		"uncertain rate": {func(_ *examination, f *nodeFacts) { f.Clock.Drift, f.Clock.Uncertainty = 12000, 3000 }, nil},
		"own clock": {func(x *examination, _ *nodeFacts) {
			for _, f := range x.Nodes {
				f.Clock.Offset = 5000
			}
		}, []string{"note own-clock"}},
		"one without a disk": {func(_ *examination, f *nodeFacts) { f.RDB, f.AOF = "off", "off" }, []string{"note persistence"}},
		"two without a disk": {func(x *examination, f *nodeFacts) {
			f.RDB, f.AOF, x.Nodes[0].RDB, x.Nodes[0].AOF = "off", "off", "off", "off"
		}, []string{"warning persistence"}},
		"one host": {func(x *examination, f *nodeFacts) { f.host = x.Nodes[0].host }, []string{"note one-host"}},
		"two silent": {func(x *examination, f *nodeFacts) {
			f.err, x.Nodes[0].err = errors.New("refused"), errors.New("refused")
		}, []string{"danger unreachable", "danger unreachable", "danger no-quorum"}},
		"two wait": {func(x *examination, f *nodeFacts) {
			f.Admitted.State, x.Nodes[0].Admitted.State = "waits", "waits"
		}, []string{"warning no-quorum-yet"}},
		"a new cluster": {func(x *examination, _ *nodeFacts) {
			for _, f := range x.Nodes {
				f.Admitted.State, f.Uptime = "new", 1
			}
		}, []string{"note no-quorum-yet"}},
		"silence and a wait": {func(x *examination, f *nodeFacts) {
			f.err, x.Nodes[0].Admitted.State = errors.New("refused"), "waits"
		}, []string{"danger unreachable", "warning no-quorum-yet"}},
	} {
		x := healthy(3)
		c.fault(x, x.Nodes[1])
		x.judge()
		assert.Equal(t, c.want, x.codes(), name)
		for _, f := range x.Findings {
			assert.True(t, f.What != "" && f.Consequence != "" && f.Remedy != "", f)
		}
	}
}

// plant makes a node's server one with these fields in INFO.
func plant(info map[string]string) func(*examination, *nodeFacts) {
	return func(_ *examination, f *nodeFacts) { f.Server = serverOf(info) }
}

func TestListsThatTolerateFewFailuresAreFindings(t *testing.T) {
	for n, want := range map[int][]string{1: {"warning few"}, 2: {"warning few"}, 4: {"note even"}} {
		x := healthy(n)
		x.judge()
		assert.Equal(t, want, x.codes())
	}
}

func TestOffsetAndDriftAreThoseOfTheMostCertainReadings(t *testing.T) {
	begun := time.Now()
	at := func(at, trip, ahead time.Duration) reading {
		return reading{at, trip, time.Duration(begun.UnixNano()) + at + ahead}
	}
	f := &nodeFacts{readings: []reading{
		at(0, 50*time.Millisecond, 70*time.Millisecond),
		at(time.Second, time.Millisecond, 100*time.Millisecond),
		at(2*time.Second, 50*time.Millisecond, 400*time.Millisecond),
		at(3*time.Second, 3*time.Millisecond, 140*time.Millisecond),
	}}
	f.measure(begun)
	assert.Equal(t, roundTrips{1, 50, 50}, f.Trip)
	assert.InDelta(t, 140, f.Clock.Offset, 0.01)
	assert.InDelta(t, 20000, f.Clock.Drift, 1)
	assert.InDelta(t, 1000, f.Clock.Uncertainty, 1)
}

func TestDoctorExitsWithOneWhereThereIsADanger(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	r := call(nodes, "doctor", "--for", "200ms")
	require.Zero(t, r.code, r.out)
	assert.Contains(t, r.out, "No danger. 3 of 3 nodes are fit")
	nodes.Stop(1)
	r = call(nodes, "doctor", "--for", "0s")
	assert.Equal(t, codeDanger, r.code)
	assert.Empty(t, r.log)
	assert.Regexp(t, `DANGER  node 1 \(.*\): it does not answer: .*\n    so:  .*\n    do:  `, r.out)
	assert.Contains(t, r.out, "1 danger. 2 of 3 nodes are fit, 2 must be; 0 more may fail.")

	r = call(nodes, "doctor", "--json", "--for", "0s")
	assert.Equal(t, codeDanger, r.code)
	var v map[string]any
	require.NoError(t, json.NewDecoder(strings.NewReader(r.out)).Decode(&v))
	assert.Equal(t, []string{"findings", "nodes", "quorum"}, keys(v))
	assert.Equal(t, []string{"code", "consequence", "node", "remedy", "severity", "what"}, keys(v["findings"].([]any)[0]))
	assert.Subset(t, keys(v["nodes"].([]any)[0]), []string{"node", "round_trip", "version", "role", "uptime_s", "eviction_policy", "rdb", "aof", "clock", "admission"})
}

func TestDoctorChangesNothing(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	require.Zero(t, call(nodes, "doctor", "--for", "0s", "--restart-guard", "10s").code)
	for i := range 3 {
		assert.Empty(t, nodes.Keys(i))
	}
}

func TestRemedyForAFrozenServerIsNotToStartIt(t *testing.T) {
	for err, want := range map[error]string{
		fmt.Errorf("no connection in time: %w", context.DeadlineExceeded):   "frozen",
		fmt.Errorf("connected, but PING fails: %w", os.ErrDeadlineExceeded): "frozen",
		syscall.ECONNREFUSED: "start the server",
	} {
		x := healthy(3)
		x.Nodes[1].err = err
		x.judge()
		assert.Contains(t, x.Findings[0].Remedy, want, "%v", err)
	}
}

// After the loss of a majority the nodes wait for 20 s, whatever the guard is.
func TestDoctorSaysWhenAMajorityVotesAgain(t *testing.T) {
	waits := func(left float64) admittance { return admittance{State: "waits", Left: left} }
	for name, c := range map[string]struct {
		admitted [3]admittance
		want     string
	}{
		"two wait":               {[3]admittance{waits(18.9), waits(18.2), {State: "votes", Nodes: 3}}, "locks wait for another 19 s"},
		"all wait":               {[3]admittance{waits(18.9), waits(2.2), waits(19.7)}, "locks wait for another 19 s"},
		"the waits are over":     {[3]admittance{waits(0), waits(0), waits(5)}, "the next client lets the nodes vote"},
		"no client has looked":   {[3]admittance{{State: "new"}, {State: "new"}, {State: "new"}}, "for 10s from its client's first connection on, and for 20s if a client still runs that saw the nodes vote"},
		"one waits for a client": {[3]admittance{waits(3), {State: "new"}, {State: "new"}}, "for 10s from its client's first connection on"},
	} {
		x := healthy(3)
		for i := range c.admitted {
			x.Nodes[i].Admitted = c.admitted[i]
		}
		x.judge()
		require.Len(t, x.Findings, 1, name)
		assert.Equal(t, "no-quorum-yet", x.Findings[0].Code, name)
		assert.Contains(t, x.Findings[0].Consequence, c.want, name)
	}
}

// doctor watches the clocks for some seconds, and then says how long a node waits from then on.
func TestDoctorReadsTheWaitAfterItHasWatched(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	client := testclient.OpenUnready(t, nodes.URLs(), redlock.WithRestartGuard(time.Minute))
	require.ErrorIs(t, client.Ping(t.Context()), redlock.ErrNoQuorum)
	require.NoError(t, client.Close())
	r := call(nodes, "--restart-guard", "1m", "doctor", "--json", "--for", "2s")
	var v examination
	require.NoError(t, json.Unmarshal([]byte(r.out), &v))
	for _, n := range v.Nodes {
		require.Equal(t, "waits", n.Admitted.State, r.out)
		assert.LessOrEqual(t, n.Admitted.Left, 58.0, r.out)
	}
}

// A count that no clock explains cannot be a token: the record is damaged.
func TestDoctorReportsADamagedRecord(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	client := testclient.Open(t, nodes.URLs(), redlock.WithTTL(200*time.Millisecond), redlock.WithNodeTimeout(90*time.Millisecond), redlock.WithRestartGuard(time.Millisecond))
	require.NoError(t, client.Mutex("x").Do(t.Context(), func(context.Context, *redlock.Lease) error { return nil }))
	require.NoError(t, client.Close())
	damage := func(i int, field, count string) {
		conn, err := redis.DialURL(nodes.URLs()[i])
		require.NoError(t, err)
		defer conn.Close()
		newest, err := redis.String(conn.Do("GET", "redlock::newest"))
		require.NoError(t, err)
		_, err = conn.Do("HSET", newest, field, count)
		require.NoError(t, err)
	}
	doctor := func() result { return call(nodes, "--restart-guard", "10s", "doctor", "--for", "0s") }
	require.NotContains(t, doctor().out, "damaged")

	damage(1, "7", "9007199254740990")
	r := doctor()
	require.Zero(t, r.code, r.out)
	require.Regexp(t, `WARNING  node 1 \(.*\): its record is damaged: it has a count that no clock explains\n    so: .*deletes the record.*\n    do:  .*find out what wrote it`, r.out)

	damage(2, "255", "99999999999999999999999")
	r = doctor()
	require.Equal(t, codeDanger, r.code, r.out)
	require.Regexp(t, `DANGER  node 1 \(.*\), node 2 \(.*\): its record is damaged: .*\n    so: .*\n    do:  delete its key redlock::record:\*`, r.out)
}

func TestDoctorPrintsWhatSeveralNodesHaveOnce(t *testing.T) {
	x := healthy(3)
	for i, f := range x.Nodes {
		f.Eviction = "allkeys-lru"
		f.err = map[int]error{2: errors.New("dial tcp 10.0.0.3: refused"), 1: errors.New("dial tcp 10.0.0.2: refused")}[i]
	}
	x.judge()
	var out strings.Builder
	x.write(&out, false)
	assert.Contains(t, out.String(), `
DANGER  node 1: it does not answer: dial tcp 10.0.0.2: refused
        node 2: it does not answer: dial tcp 10.0.0.3: refused
    so: `)
	assert.Equal(t, 1, strings.Count(out.String(), "start the server"))
	assert.Len(t, x.Findings, 4, "of each node, in the JSON: programs read them one by one")

	x = healthy(3)
	for _, f := range x.Nodes {
		f.Eviction = "allkeys-lru"
	}
	x.judge()
	out.Reset()
	x.write(&out, false)
	assert.Contains(t, out.String(), "\nDANGER  node 0, node 1, node 2: its maxmemory-policy is allkeys-lru\n    so: ")
	assert.Equal(t, 1, strings.Count(out.String(), "DANGER"))
	assert.Contains(t, out.String(), "\n1 danger. ")
}

func TestCertificatesThatEndSoonAreReported(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		server, client time.Duration // until their ends; 0: there is none
		want           []string
	}{
		{0, 0, nil},
		{15 * 24 * time.Hour, 15 * 24 * time.Hour, nil},
		{13 * 24 * time.Hour, 15 * 24 * time.Hour, []string{"warning certificate"}},
		{15 * 24 * time.Hour, time.Hour, []string{"warning own-certificate"}},
	} {
		x := healthy(3)
		for at, left := range map[*time.Time]time.Duration{&x.Nodes[1].expiry.Server: c.server, &x.Nodes[1].expiry.Client: c.client} {
			if left > 0 {
				*at = now.Add(left)
			}
		}
		x.judgeCertificates(x.Nodes[1], now)
		assert.Equal(t, c.want, x.codes())
	}
}
