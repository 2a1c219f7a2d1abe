package redlockotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/redlock-go/redlock"
)

// Bounds of the histograms, in seconds: trips for round trips, from those within a rack to
// those between continents; tasks for the time that callers hold locks or wait for them. Each bound is a time series
// for each set of attributes: a test bounds what a client has. The alert RedlockLongWaits needs 30 as a bound.
var (
	trips = []float64{0.0005, 0.001, 0.0025, 0.005, 0.025, 0.1, 0.5, 2.5}
	tasks = []float64{0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10, 30, 300}
)

// instruments are the instruments with which hooks record.
type instruments struct {
	meter     metric.Meter
	operation metric.Float64Histogram
	wait      metric.Float64Histogram
	hold      metric.Float64Histogram
	ballot    metric.Float64Histogram
	vote      metric.Float64Histogram
}

func (i *instruments) make(m metric.Meter) error {
	i.meter = m
	var errs [5]error
	histogram := func(name, description string, bounds []float64) (metric.Float64Histogram, error) {
		return m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
			metric.WithExplicitBucketBoundaries(bounds...))
	}
	i.operation, errs[0] = histogram("redlock.operation.duration", "Duration of Lock, TryLock, RLock, TryRLock, Acquire, TryAcquire, Extend, Downgrade, Unlock, Ask, Transfer and Resume, with the time that Lock, RLock and Acquire waited.", tasks)
	i.wait, errs[1] = histogram("redlock.wait.duration", "How long a Lock, RLock or Acquire that was refused waited.", tasks)
	i.hold, errs[2] = histogram("redlock.lease.duration", "How long a lease was held, since it was asked for.", tasks)
	i.ballot, errs[3] = histogram("redlock.ballot.duration", "Time until the verdict of a question that was sent to all nodes.", trips)
	i.vote, errs[4] = histogram("redlock.vote.duration", "Time until a node answered, late answers among them.", trips)
	return errors.Join(errs[:]...)
}

// record records a duration, with the user's attributes and these.
func (t *Telemetry) record(ctx context.Context, h metric.Float64Histogram, d time.Duration, attributes ...attribute.KeyValue) {
	h.Record(ctx, d.Seconds(), t.common, metric.WithAttributes(attributes...))
}

// kind distinguishes ballots and votes in metrics. There are tens of thousands of them a
// second, so the attributes of each kind are made once.
type kind struct {
	op      string // of a ballot
	outcome redlock.Outcome
	vote    bool
	index   int
	node    string
}

// optionOf returns the attributes of a kind, with the user's.
func (t *Telemetry) optionOf(k kind) metric.MeasurementOption {
	if known, ok := t.kinds.Load(k); ok {
		return known.(metric.MeasurementOption)
	}
	all := append(t.attributes[:len(t.attributes):len(t.attributes)], outcomeKey.String(word(string(k.outcome))))
	if k.vote {
		all = append(all, nodeOf(k.index, k.node)...)
	} else {
		all = append(all, ballotKey.String(k.op))
	}
	made := metric.WithAttributeSet(attribute.NewSet(all...))
	t.kinds.Store(k, made)
	return made
}

// attributesOf adds what stands for the lock's name, and the error's type to the attributes of an event.
func (t *Telemetry) attributesOf(name string, err error, attributes ...attribute.KeyValue) []attribute.KeyValue {
	if t.nameOf != nil {
		attributes = append(attributes, nameKey.String(t.names.bound(t.nameOf(name))))
	}
	if err != nil {
		attributes = append(attributes, errorType(err))
	}
	return attributes
}

func (t *Telemetry) recordCall(ctx context.Context, e redlock.CallEvent) {
	t.record(ctx, t.operation, e.Elapsed, t.attributesOf(e.Name, e.Err, operationKey.String(e.Op))...)
}

func (t *Telemetry) recordWait(ctx context.Context, e redlock.WaitEvent) {
	t.record(ctx, t.wait, e.Waited, t.attributesOf(e.Name, e.Err)...)
}

func (t *Telemetry) recordBallot(ctx context.Context, e redlock.BallotEvent) {
	t.ballot.Record(ctx, e.Elapsed.Seconds(), t.optionOf(kind{op: e.Op, outcome: e.Outcome}))
}

// recordVote records a vote that is an answer. A vote without an answer has no latency; it
// is counted in redlock.node.votes.
func (t *Telemetry) recordVote(ctx context.Context, e redlock.BallotVote) {
	if e.Outcome != "granted" && e.Outcome != "refused" {
		return
	}
	t.vote.Record(ctx, e.Latency.Seconds(),
		t.optionOf(kind{outcome: e.Outcome, vote: true, index: e.Index, node: e.Node}))
}

// recordHold records how long a lease lasted that has ended.
func (t *Telemetry) recordHold(e redlock.LeaseEvent) {
	attributes := []attribute.KeyValue{outcomeKey.String(string(e.Kind)), sharedKey.Bool(e.Shared)}
	ctx := e.Context
	switch e.Kind {
	case "released":
	case "lost":
		ctx = context.Background()
		if lost := (*redlock.LostError)(nil); errors.As(e.Err, &lost) {
			attributes = append(attributes, reasonKey.String(word(lost.Reason.String())))
		}
	default:
		return
	}
	t.record(ctx, t.hold, e.Held, t.attributesOf(e.Name, nil, attributes...)...)
}
