import Bytes
import Calling
import Crypto
import OTLP
import ProxyCore
import PushDelivery
package import Reactor
import ServiceEvents
package import Telemetry

/// Sends the spans of calls to an OTLP collector: one trace for each call, with the steps of each phone.
///
/// - The class is `@unchecked Sendable`, because it is used only on the shard's loop.
package final class CallSpans: @unchecked Sendable {
    private var builder: SpanBuilder
    private var sampling: SpanSampling
    private var settings: OTLPSettings
    private let sender: SpanSender
    private var clock = ClockStart(SystemClock.unixStart)

    /// Creates the sender; `nil` if the settings name no collector.
    package init?(_ settings: OTLPSettings, on loop: EventLoop, log: Log) throws(StartError) {
        guard let target = try Self.target(settings) else { return nil }
        self.settings = settings
        builder = SpanBuilder(showsUsers: settings.users)
        sampling = SpanSampling(oneIn: settings.oneIn)
        do {
            sender = try SpanSender(to: target, limit: settings.queue, on: loop, log: log)
        } catch {
            throw StartError("otlp: \(error)")
        }
    }

    private static func target(_ settings: OTLPSettings) throws(StartError) -> SpanSender.Target? {
        guard let url = settings.target else { return nil }
        let resource = [
            TraceAttribute("service.name", settings.serviceName),
            TraceAttribute("service.version", Version.current),
            TraceAttribute("service.instance.id", settings.node ?? HostAddress.name),
        ]
        return SpanSender.Target(
            url: url, place: settings.place, headers: try settings.headers(),
            authority: settings.caFile.map { .file($0) },
            request: ExportRequest(resource: resource, scope: "sippushd", version: Version.current))
    }

    /// Uses other settings, which must name a collector. Spans that wait are sent to the new collector.
    ///
    /// - Returns: false if the settings name no collector, so that nothing has changed.
    package func change(to settings: OTLPSettings) throws(StartError) -> Bool {
        guard let target = try Self.target(settings) else { return false }
        sender.change(to: target, limit: settings.queue)
        builder = SpanBuilder(showsUsers: settings.users)
        if settings.oneIn != self.settings.oneIn { sampling = SpanSampling(oneIn: settings.oneIn) }
        self.settings = settings
        return true
    }

    /// Sends the waiting spans, and gives up at the first failure or after `time`.
    package func finish(within time: Duration, _ done: @escaping () -> Void) { sender.finish(within: time, done) }

    package var figures: CounterSet { sender.figures }

    /// The number of spans that wait for the collector.
    var waiting: Int { sender.waiting }

    func ended(_ report: EndedCallReport) {
        let root = builder.root(report, unixStart: clock.value(measured: SystemClock.unixStart))
        for span in sampling.takeRoot(root, isFailed: report.code.isFailure) { sender.send(span) }
    }

    func noted(_ record: TimelineRecord) {
        guard record.kind == .call || record.kind == .outgoing, !record.callID.isEmpty else { return }
        let unixStart = clock.value(measured: SystemClock.unixStart)
        if record.kind == .outgoing || record.refusal != nil {
            // Refused requests of strangers get no spans, because strangers could fill the collector.
            guard record.refusal == nil || record.share != .stranger else { return }
            let root = builder.root(record, unixStart: unixStart)
            for span in sampling.takeRoot(root, isFailed: root.failure != nil) { sender.send(span) }
        } else {
            let spans = builder.spans(record, unixStart: unixStart)
            for span in sampling.take(spans, of: SpanBuilder.root(of: record)) { sender.send(span) }
        }
    }
}
