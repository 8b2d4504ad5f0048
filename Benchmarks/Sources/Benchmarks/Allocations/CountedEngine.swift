import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import PushDelivery
import Registration
import Routing
import SIPGrammar
import SIPMessage
import Telemetry
import TestSupport
import Timekeeping

/// An engine with a message reader, as in a shard, whose heap allocations are counted.
final class CountedEngine {
    private(set) var allocations: UInt64 = 0
    private let engine: ProxyEngine
    private let reader = MessageReader()
    private let count: () -> UInt64
    /// The actions that the engine returned last; the array's memory is reused, as in a shard.
    private var taken: [ProxyAction] = []
    private let now = Moment(instant: Instant(nanoseconds: 1_000_000_000), date: UnixTime(seconds: 1_790_000_000))

    init(trusting caller: Endpoint, counting count: @escaping () -> UInt64) {
        self.count = count
        var settings = ProxySettings()
        settings.domains = [ByteString(MessageTexts.domain)]
        settings.trusted = [.endpoint(caller)]
        settings.authenticates = false
        settings.configuredProviders = [.fcm]
        settings.dispatch = EngineFixture.dispatch
        let proxy = Endpoint(.loopbackV4, 5060)
        let identity = LocalIdentity(
            listeners: [Listener(number: 0, transport: .udp, bound: proxy, sentBy: ByteString("\(proxy)"))],
            domains: settings.domains)
        let reader = reader
        let functions = ProxyFunctions(
            seal: .forTests, random: { .random(in: .min ... .max) },
            reread: { bytes in
                guard case .request(let request) = reader.read(bytes, isStream: false) else { return nil }
                return request
            }, packing: .forTests, digest: DigestFunctions(hash: { _, bytes in bytes }, code: { $0 }))
        engine = ProxyEngine(
            settings: settings, identity: identity, functions: functions, startedAt: now.date)
    }

    /// Handles a message, and the results of its commits and pushes, and returns all actions.
    ///
    /// The actions are not performed, so that only allocations of the reader and the engine are counted.
    func receive(_ bytes: [UInt8], from source: Endpoint) -> [ProxyAction] {
        let flow = Flow(transport: .udp, listener: 0, connection: 0, remote: source)
        let actions = counted {
            switch reader.read(bytes.span, isStream: false) {
            case .request(let request): engine.requestReceived(request, on: flow, now: now)
            case .response(let response): engine.responseReceived(response, on: flow, now: now)
            case .unusable(let message): engine.unusableReceived(message, on: flow, now: now)
            }
        }
        return withFollowing(actions)
    }

    private func withFollowing(_ actions: [ProxyAction]) -> [ProxyAction] {
        actions + actions.flatMap { withFollowing(followed($0)) }
    }

    private func followed(_ action: ProxyAction) -> [ProxyAction] {
        switch action {
        case .commit(_, let ticket): counted { engine.committed(ticket, succeeded: true, now: now) }
        case .push(let transmission):
            counted {
                let answer = ProviderAnswer(status: 200)
                engine.pushHappened(.answered(transmission, answer, after: .milliseconds(1)), now: now)
            }
        default: []
        }
    }

    private func counted(_ body: () -> Void) -> [ProxyAction] {
        let before = count()
        body()
        engine.takeActions(into: &taken)
        allocations += count() - before
        return taken.map { $0 }
    }

    /// Returns the number of allocations that the reader and the engine made while the body ran.
    func allocations(of body: () throws(BenchmarkError) -> Void) throws(BenchmarkError) -> UInt64 {
        let before = allocations
        try body()
        return allocations - before
    }
}
