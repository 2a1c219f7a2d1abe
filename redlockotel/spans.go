package redlockotel

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlock-go/redlock"
)

const (
	// Where more spans than this are open, those whose end may have been dropped are
	// ended: a ballot takes no longer than its nodes' connections, a call as long as
	// its caller waits.
	manyOpen  = 4096
	oldBallot = time.Minute
	oldCall   = time.Hour
)

// spans are those that have begun and not ended.
type spans struct {
	tracer trace.Tracer

	mu      sync.Mutex // protects what follows
	calls   openSpans
	waits   openSpans // by their calls
	ballots openSpans
}

func newSpans(t trace.Tracer) spans {
	return spans{tracer: t, calls: newOpenSpans(oldCall), waits: newOpenSpans(oldCall), ballots: newOpenSpans(oldBallot)}
}

// openSpans are open spans of one kind, by their numbers.
type openSpans struct {
	open   map[uint64]openSpan
	old    time.Duration
	beware int // how many make it look for old ones
}

type openSpan struct {
	ctx   context.Context // the parent's with the span
	span  trace.Span
	began time.Time
}

func newOpenSpans(old time.Duration) openSpans {
	return openSpans{open: make(map[uint64]openSpan), old: old, beware: manyOpen}
}

func (o *openSpans) add(id uint64, s openSpan) {
	o.open[id] = s
	if len(o.open) < o.beware {
		return
	}
	for id, other := range o.open {
		if s.began.Sub(other.began) > o.old {
			other.span.End()
			delete(o.open, id)
		}
	}
	o.beware = max(manyOpen, 2*len(o.open))
}

// take removes a span that ends.
func (o *openSpans) take(id uint64) (openSpan, bool) {
	s, known := o.open[id]
	delete(o.open, id)
	return s, known
}

// begin opens a span.
func (t *Telemetry) begin(o *openSpans, id uint64, parent context.Context, name string, at time.Time, attributes ...attribute.KeyValue) {
	ctx, span := t.tracer.Start(parent, name, trace.WithTimestamp(at), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(t.attributes...), trace.WithAttributes(attributes...))
	o.add(id, openSpan{ctx, span, at})
}

// within is the context of a call's span, or the caller's. Called under t.mu.
func (t *Telemetry) within(call uint64, own context.Context) context.Context {
	if s, known := t.calls.open[call]; known {
		return s.ctx
	}
	return own
}

// fail notes an error at a span.
func fail(span trace.Span, err error) {
	if err != nil {
		span.SetAttributes(errorType(err))
		span.SetStatus(codes.Error, err.Error())
	}
}

func (t *Telemetry) callStart(e redlock.CallStart) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin(&t.calls, e.Call, e.Context, "redlock "+e.Op, e.Time, operationKey.String(e.Op), nameKey.String(e.Name))
}

func (t *Telemetry) callEnd(e redlock.CallEnd) {
	t.mu.Lock()
	s, known := t.calls.take(e.Call)
	t.mu.Unlock()
	ctx := e.Context
	if known {
		ctx = s.ctx
		if e.Owner != "" {
			s.span.SetAttributes(ownerKey.String(e.Owner), tokenKey.Int64(e.Token))
		}
		fail(s.span, e.Err)
	}
	t.called(ctx, e)
	if known {
		s.span.End(trace.WithTimestamp(e.Time.Add(e.Elapsed)))
	}
}

func (t *Telemetry) waitStart(e redlock.WaitStart) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin(&t.waits, e.Call, t.within(e.Call, e.Context), "redlock wait", e.Time, nameKey.String(e.Name))
}

func (t *Telemetry) waitEnd(e redlock.WaitEnd) {
	t.mu.Lock()
	s, known := t.waits.take(e.Call)
	t.mu.Unlock()
	ctx := e.Context
	if known {
		ctx = s.ctx
		s.span.SetAttributes(placeKey.Int(e.Place))
		fail(s.span, e.Err)
		s.span.End(trace.WithTimestamp(e.Time.Add(e.Waited)))
	}
	t.waited(ctx, e)
}

func (t *Telemetry) ballotStart(e redlock.BallotStart) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin(&t.ballots, e.Ballot, t.within(e.Call, e.Context), "redlock ballot", e.Time,
		ballotKey.String(e.Op), nameKey.String(e.Name), ownerKey.String(e.Owner))
}

func (t *Telemetry) ballotVote(e redlock.BallotVote) {
	t.mu.Lock()
	s, known := t.ballots.open[e.Ballot]
	t.mu.Unlock()
	ctx := e.Context
	if known {
		ctx = s.ctx
	}
	if known && s.span.IsRecording() {
		s.span.AddEvent("vote", trace.WithTimestamp(e.Time.Add(e.Latency)), trace.WithAttributes(voteOf(&e)...))
	}
	t.voted(ctx, e)
}

// voteOf are a vote's attributes as an event.
func voteOf(e *redlock.BallotVote) []attribute.KeyValue {
	all := append(nodeOf(e.Index, e.Node), outcomeKey.String(word(e.Outcome)), latencyKey.Float64(e.Latency.Seconds()))
	if e.Cause != nil {
		all = append(all, attribute.String("exception.message", e.Cause.Error()))
	}
	return all
}

func (t *Telemetry) ballotEnd(e redlock.BallotEnd) {
	t.mu.Lock()
	s, known := t.ballots.take(e.Ballot)
	t.mu.Unlock()
	ctx := e.Context
	if known {
		ctx = s.ctx
		s.span.SetAttributes(outcomeKey.String(word(e.Outcome)),
			grantedKey.Int(e.Granted), refusedKey.Int(e.Refused), silentKey.Int(e.Silent))
		if e.Outcome == redlock.Unknown || e.Outcome == redlock.NotSent {
			s.span.SetStatus(codes.Error, "no quorum of answers")
		}
	}
	t.balloted(ctx, e)
	if known {
		s.span.End(trace.WithTimestamp(e.Time.Add(e.Elapsed)))
	}
}
