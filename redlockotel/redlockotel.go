// Package redlockotel gives OpenTelemetry traces and metrics of redlock clients.
//
//	telemetry, err := redlockotel.New()
//	...
//	client, err := redlock.Open(urls, redlock.WithTrace(telemetry.Trace()))
//	...
//	registration, err := telemetry.Observe(client)
//	...
//	defer registration.Unregister()
//
// Spans: "redlock lock" (trylock, rlock, tryrlock, acquire, tryacquire, extend, downgrade, unlock, ask,
// transfer, resume) for each call, a child of the span in the caller's context; "redlock ballot" for each
// question sent to the nodes, with an event for each vote; "redlock wait" while a Lock, RLock or Acquire
// waits. They are made from hooks, a moment after the events and with the events' times: no vote and no lease
// waits for an exporter. So the library cannot put its spans into contexts: spans of a traced pool do not
// appear below these.
//
// Metrics have durations in seconds. Locks' names are attributes of spans, and of metrics
// only as WithNameAttribute says, since there may be any number of names. README.md lists all
// spans, metrics and attributes.
//
// For Prometheus use OpenTelemetry's own exporter,
// go.opentelemetry.io/otel/exporters/prometheus, as the reader of the MeterProvider.
package redlockotel

import (
	"fmt"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlock-go/redlock"
)

const scope = "github.com/redlock-go/redlock/redlockotel"

// Telemetry makes spans and metrics of the events of redlock clients. It is safe for
// concurrent use, and one serves any number of clients.
type Telemetry struct {
	settings
	spans
	instruments
	common metric.MeasurementOption // the user's attributes
	kinds  sync.Map                 // metric.MeasurementOption by kind
	names  names                    // in metrics
}

type settings struct {
	tracers    trace.TracerProvider
	meters     metric.MeterProvider
	nameOf     func(string) string // nil: no names in metrics
	attributes []attribute.KeyValue
}

// Option changes a setting.
type Option func(*settings)

// WithTracerProvider sets the provider that receives spans. Default
// otel.GetTracerProvider().
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(s *settings) { s.tracers = p }
}

// WithMeterProvider sets the provider that receives metrics. Default
// otel.GetMeterProvider().
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(s *settings) { s.meters = p }
}

// WithNameAttribute makes f(name) the attribute redlock.lock.name of the metrics of calls, waits and leases; f gets
// the lock's name, of a Client.Multi all names in one text. Each result makes time series of its own: return the
// kind of lock, such as "invoice" for "invoice-42". After 100 results the further ones count as "other". f must
// be safe for concurrent use.
func WithNameAttribute(f func(name string) string) Option {
	return func(s *settings) { s.nameOf = f }
}

// WithAttributes adds attributes to all spans and metrics, for example to distinguish the
// clients of several sets of masters.
func WithAttributes(attributes ...attribute.KeyValue) Option {
	return func(s *settings) { s.attributes = append(s.attributes, attributes...) }
}

// New makes the instruments. It returns an error if the MeterProvider refuses one.
func New(opts ...Option) (*Telemetry, error) {
	s := settings{tracers: otel.GetTracerProvider(), meters: otel.GetMeterProvider()}
	for _, opt := range opts {
		opt(&s)
	}
	tracer := s.tracers.Tracer(scope, trace.WithInstrumentationVersion(version()), trace.WithSchemaURL(semconv.SchemaURL))
	t := &Telemetry{settings: s, spans: newSpans(tracer), common: metric.WithAttributeSet(attribute.NewSet(s.attributes...))}
	meter := s.meters.Meter(scope, metric.WithInstrumentationVersion(version()), metric.WithSchemaURL(semconv.SchemaURL))
	if err := t.instruments.make(meter); err != nil {
		return nil, fmt.Errorf("redlockotel: %w", err)
	}
	return t, nil
}

// Trace returns the hooks for redlock.WithTrace. To use hooks of your own too, set those
// that it leaves nil, or call these from yours.
func (t *Telemetry) Trace() *redlock.Trace {
	return &redlock.Trace{
		CallStart:   t.callStart,
		CallEnd:     t.callEnd,
		BallotStart: t.ballotStart,
		BallotVote:  t.ballotVote,
		BallotEnd:   t.ballotEnd,
		WaitStart:   t.waitStart,
		WaitEnd:     t.waitEnd,
		Lease:       t.recordHold,
	}
}
