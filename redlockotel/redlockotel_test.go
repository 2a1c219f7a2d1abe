package redlockotel_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlockotel"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is embedded nodes, an observed client, and its spans and metrics.
type bench struct {
	nodes    *redlocktest.Nodes
	client   *redlock.Client
	exporter *tracetest.InMemoryExporter
	tracer   trace.Tracer
	reader   *sdkmetric.ManualReader
}

func start(t *testing.T, opts ...redlockotel.Option) *bench {
	t.Helper()
	return startOver(t, 3, opts...)
}

// startOver starts a bench of so many nodes.
func startOver(t *testing.T, nodes int, opts ...redlockotel.Option) *bench {
	t.Helper()
	b := &bench{nodes: redlocktest.Start(t, nodes), exporter: tracetest.NewInMemoryExporter(), reader: sdkmetric.NewManualReader()}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(b.exporter))
	b.tracer = tracers.Tracer("test")
	opts = append(opts, redlockotel.WithTracerProvider(tracers),
		redlockotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(b.reader))))
	telemetry, err := redlockotel.New(opts...)
	require.NoError(t, err)
	b.client = testclient.OpenUnready(t, b.nodes.URLs(), redlock.WithTrace(telemetry.Trace())) // a wait for a quorum is in the trace, too
	registration, err := telemetry.Observe(b.client)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, registration.Unregister()) })
	return b
}

// asItIs has locks' names in metrics.
var asItIs = redlockotel.WithNameAttribute(func(name string) string { return name })

// expired is a context whose deadline is over when its channel is closed.
type expired struct {
	context.Context
	over chan struct{}
}

func (c expired) Done() <-chan struct{} { return c.over }

func (c expired) Err() error {
	select {
	case <-c.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// untilQueued returns a context whose deadline passes when a caller waits for the lock.
func (b *bench) untilQueued(t *testing.T, name string) context.Context {
	ctx := expired{t.Context(), make(chan struct{})}
	go func() {
		defer close(ctx.over)
		for t.Context().Err() == nil {
			if s, err := b.client.Inspect(t.Context(), name); err == nil && len(s.Queue) > 0 {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	return ctx
}

// spans closes the client, and returns its spans of this name.
func (b *bench) spans(t *testing.T, name string) []tracetest.SpanStub {
	t.Helper()
	require.NoError(t, b.client.Close())
	var all []tracetest.SpanStub
	for _, s := range b.exporter.GetSpans() {
		if s.Name == name {
			all = append(all, s)
		}
	}
	return all
}

func attributes(all []attribute.KeyValue) map[string]string {
	m := make(map[string]string)
	for _, a := range all {
		m[string(a.Key)] = a.Value.String()
	}
	return m
}

// collect collects the metrics.
func (b *bench) collect(t *testing.T) (all metricdata.ResourceMetrics) {
	t.Helper()
	require.NoError(t, b.reader.Collect(context.Background(), &all))
	return all
}

// metric collects the metrics, and returns that of this name.
func (b *bench) metric(t *testing.T, name string) metricdata.Metrics {
	t.Helper()
	for _, s := range b.collect(t).ScopeMetrics {
		for _, m := range s.Metrics {
			if m.Name == name {
				return m
			}
		}
	}
	t.Fatalf("no metric %q", name)
	return metricdata.Metrics{}
}

// sum returns the sum of the points that have all these attributes: key, value, …
func sum(m metricdata.Metrics, want ...string) (n int64) {
	for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
		if matches(p.Attributes, want) {
			n += p.Value
		}
	}
	return n
}

// observations returns the count, and the sum in seconds, of a histogram at those points.
func observations(m metricdata.Metrics, want ...string) (count uint64, seconds float64) {
	for _, p := range m.Data.(metricdata.Histogram[float64]).DataPoints {
		if matches(p.Attributes, want) {
			count += p.Count
			seconds += p.Sum
		}
	}
	return count, seconds
}

func matches(set attribute.Set, want []string) bool {
	has := attributes(set.ToSlice())
	for i := 0; i < len(want); i += 2 {
		if has[want[i]] != want[i+1] {
			return false
		}
	}
	return true
}

func TestALockIsASpanBelowItsCallersWithABallotAndVotes(t *testing.T) {
	b := start(t, redlockotel.WithAttributes(attribute.String("set", "north")))
	ctx, outer := b.tracer.Start(t.Context(), "the caller's")
	lease, err := b.client.Mutex("x").Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(ctx))
	outer.End()

	locks := b.spans(t, "redlock lock")
	require.Len(t, locks, 1)
	lock := locks[0]
	require.Equal(t, outer.SpanContext().SpanID(), lock.Parent.SpanID())
	require.Equal(t, trace.SpanKindClient, lock.SpanKind)
	require.Equal(t, codes.Unset, lock.Status.Code)
	has := attributes(lock.Attributes)
	require.Equal(t, "x", has["redlock.lock.name"])
	require.Equal(t, lease.Owner(), has["redlock.lease.owner"])
	require.NotEmpty(t, has["redlock.lease.token"])
	require.Equal(t, "north", has["set"])

	ballots := b.spans(t, "redlock ballot")
	require.Len(t, ballots, 2)
	require.Equal(t, lock.SpanContext.SpanID(), ballots[0].Parent.SpanID())
	require.Equal(t, b.spans(t, "redlock unlock")[0].SpanContext.SpanID(), ballots[1].Parent.SpanID())
	require.False(t, ballots[0].StartTime.Before(lock.StartTime))
	require.False(t, ballots[0].EndTime.After(lock.EndTime))
	require.Equal(t, "granted", attributes(ballots[0].Attributes)["redlock.outcome"])
	votes := ballots[0].Events
	require.Len(t, votes, 2, "the verdict fell with the second")
	vote := attributes(votes[0].Attributes)
	require.Equal(t, "granted", vote["redlock.outcome"])
	require.Equal(t, "127.0.0.1", vote["server.address"])
	require.NotEmpty(t, vote["server.port"])
	require.False(t, votes[0].Time.Before(ballots[0].StartTime))
	require.False(t, votes[0].Time.After(ballots[0].EndTime))
}

func TestALockThatFailsIsASpanWithAnError(t *testing.T) {
	b := start(t)
	lease, err := b.client.Mutex("x").Lock(t.Context())
	require.NoError(t, err)
	_, err = b.client.Mutex("x").TryLock(t.Context())
	require.ErrorIs(t, err, redlock.ErrHeld)
	began := time.Now()
	_, err = b.client.Mutex("x").Lock(b.untilQueued(t, "x"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	ended := time.Now()
	require.NoError(t, lease.Unlock(t.Context()))

	try := b.spans(t, "redlock trylock")[0]
	require.Equal(t, codes.Error, try.Status.Code)
	require.Contains(t, try.Status.Description, "held by")
	require.Equal(t, "held", attributes(try.Attributes)["error.type"])
	lock := b.spans(t, "redlock lock")[1]
	require.Equal(t, "deadline_exceeded", attributes(lock.Attributes)["error.type"])
	wait := b.spans(t, "redlock wait")[0]
	require.Equal(t, lock.SpanContext.SpanID(), wait.Parent.SpanID())
	require.Equal(t, "1", attributes(wait.Attributes)["redlock.wait.position"])
	require.True(t, wait.StartTime.After(began))
	require.True(t, wait.EndTime.After(wait.StartTime))
	require.True(t, wait.EndTime.Before(ended))
	for _, ballot := range b.spans(t, "redlock ballot") {
		require.True(t, ballot.Parent.IsValid(), "rollbacks too belong to their calls: %v", attributes(ballot.Attributes))
	}
}

func TestABallotWithoutAQuorumIsAnError(t *testing.T) {
	b := start(t)
	require.NoError(t, b.client.Ping(t.Context()))
	b.nodes.Stop(0)
	b.nodes.Stop(1)
	require.Eventually(t, func() bool {
		s := b.client.Stats()
		return s.Nodes[0].State == "down" && s.Nodes[1].State == "down"
	}, 5*time.Second, time.Millisecond)
	_, err := b.client.Mutex("x").TryLock(t.Context())
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.Equal(t, int64(1), sum(b.metric(t, "redlock.node.status"), "redlock.node.index", "0", "redlock.node.state", "down"))
	require.Equal(t, int64(0), sum(b.metric(t, "redlock.node.status"), "redlock.node.index", "0", "redlock.node.state", "up"))
	require.Equal(t, int64(1), sum(b.metric(t, "redlock.node.status"), "redlock.node.index", "2", "redlock.node.state", "up"))
	require.Equal(t, "no_quorum", attributes(b.spans(t, "redlock trylock")[0].Attributes)["error.type"])
	for _, ballot := range b.spans(t, "redlock ballot") {
		if attributes(ballot.Attributes)["redlock.ballot.name"] == "lock" {
			require.Equal(t, codes.Error, ballot.Status.Code)
			require.Equal(t, "2", attributes(ballot.Attributes)["redlock.ballot.silent"])
			return
		}
	}
	t.Fatal("no ballot for the lock")
}

func TestMetricsCountWhatTheClientDid(t *testing.T) {
	b := start(t, redlockotel.WithAttributes(attribute.String("set", "north")))
	first, err := b.client.Mutex("x").Lock(t.Context())
	require.NoError(t, err)
	second, err := b.client.Mutex("y").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, second.Extend(t.Context()))
	_, err = b.client.Mutex("x").TryLock(t.Context())
	require.ErrorIs(t, err, redlock.ErrHeld)
	began := time.Now()
	_, err = b.client.Mutex("x").Lock(b.untilQueued(t, "x"))
	took := time.Since(began)
	require.ErrorIs(t, err, redlock.ErrHeld)
	require.NoError(t, first.Unlock(t.Context()))
	require.Equal(t, int64(1), sum(b.metric(t, "redlock.leases.held"), "set", "north"))
	require.NoError(t, b.client.Close())

	require.Equal(t, int64(0), sum(b.metric(t, "redlock.leases.held")))
	require.Equal(t, int64(2), sum(b.metric(t, "redlock.attempts"), "redlock.outcome", "acquired"))
	require.GreaterOrEqual(t, sum(b.metric(t, "redlock.attempts"), "redlock.outcome", "held"), int64(2))
	require.Equal(t, int64(1), sum(b.metric(t, "redlock.renewals"), "redlock.outcome", "granted"))
	require.Equal(t, int64(2), sum(b.metric(t, "redlock.lease.ends"), "redlock.outcome", "released"))
	require.Equal(t, int64(0), sum(b.metric(t, "redlock.events.dropped")))
	require.NotZero(t, sum(b.metric(t, "redlock.node.votes"), "redlock.node.index", "1", "redlock.outcome", "granted", "server.address", "127.0.0.1"))
	require.Equal(t, int64(3), sum(b.metric(t, "redlock.node.connects")))

	locks, _ := observations(b.metric(t, "redlock.operation.duration"), "redlock.operation.name", "lock", "set", "north")
	require.Equal(t, uint64(3), locks)
	failed, seconds := observations(b.metric(t, "redlock.operation.duration"), "redlock.operation.name", "lock", "error.type", "deadline_exceeded")
	require.Equal(t, uint64(1), failed)
	require.Positive(t, seconds)
	require.LessOrEqual(t, seconds, took.Seconds())
	waits, _ := observations(b.metric(t, "redlock.wait.duration"), "error.type", "deadline_exceeded")
	require.Equal(t, uint64(1), waits)
	held, _ := observations(b.metric(t, "redlock.lease.duration"), "redlock.outcome", "released")
	require.Equal(t, uint64(2), held)
	ballots, _ := observations(b.metric(t, "redlock.ballot.duration"), "redlock.ballot.name", "extend", "redlock.outcome", "granted", "set", "north")
	require.Equal(t, uint64(1), ballots)
	votes, _ := observations(b.metric(t, "redlock.vote.duration"), "redlock.outcome", "granted", "server.address", "127.0.0.1")
	granted := uint64(0)
	for _, n := range b.client.Stats().Nodes {
		granted += n.Granted
	}
	require.Equal(t, granted, votes, "late ones too")
	require.Equal(t, "s", b.metric(t, "redlock.vote.duration").Unit)
}

func TestALostLeaseHasItsReason(t *testing.T) {
	b := start(t)
	lease, err := b.client.Mutex("x").Lock(t.Context())
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		for i := range 3 {
			b.nodes.Wipe(i)
		}
		return errors.Is(lease.Extend(t.Context()), redlock.ErrLost)
	}, 5*time.Second, 10*time.Millisecond)
	require.NoError(t, b.client.Close())
	lost, _ := observations(b.metric(t, "redlock.lease.duration"), "redlock.outcome", "lost", "redlock.lease.lost.reason", "revoked",
		"redlock.lease.shared", "false")
	require.Equal(t, uint64(1), lost)
}

func TestLockNamesAreInMetricsOnlyIfAskedFor(t *testing.T) {
	for _, asked := range []bool{false, true} {
		opts, want := []redlockotel.Option{}, uint64(0)
		if asked {
			opts, want = append(opts, asItIs), 1
		}
		b := start(t, opts...)
		lease, err := b.client.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
		require.NoError(t, b.client.Close())
		for _, name := range []string{"redlock.operation.duration", "redlock.lease.duration"} {
			n, _ := observations(b.metric(t, name), "redlock.lock.name", "x")
			require.Equal(t, want, min(n, 1), name)
		}
	}
}
