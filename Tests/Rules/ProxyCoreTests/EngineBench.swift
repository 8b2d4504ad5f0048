import AccessLimits
import Addressing
import Bytes
import Calling
import JSON
import LocationService
import ProxyCore
import ProxyPolicy
import PushDelivery
import Registration
import SIPGrammar
import SIPMessage
import Telemetry
import TestSupport
import Testing
import Timekeeping

/// An engine with a phone, a PBX and a clock, which tests control. Tests pass SIP messages to the bench as text, and
/// get the engine's actions.
final class EngineBench {
    let engine: ProxyEngine
    private(set) var now = Moment(instant: Instant(nanoseconds: 1_000_000_000), date: UnixTime(seconds: 1_790_000_000))
    private(set) var actions: [ProxyAction] = []
    /// The last attempt to send each push, by the id of the push.
    private var tries: [PushID: PushDispatcher.Transmission] = [:]

    static let phone = Endpoint(IPAddress(v4: 0xc000_0205), 40_000)
    static let pbx = Endpoint(IPAddress(v4: 0x0a00_0002), 5060)
    static let bob = AddressOfRecord(user: ByteString("bob"), host: ByteString("example.net"))

    init(
        users: UserDirectory = UserDirectory(), seed: UInt64 = 1, log: Log = .silent, hasTLS: Bool = false,
        _ change: (inout ProxySettings) -> Void = { _ in }
    ) {
        engine = EngineFixture.engine(StoredState(users: users), seed: seed, log: log, hasTLS: hasTLS, change)
    }

    /// Creates a bench whose engine starts with the content of `disk`, like the next run of the program.
    init(
        restarting disk: SimulatedDisk, at now: Moment, seed: UInt64, hasTLS: Bool = false,
        _ change: (inout ProxySettings) -> Void
    ) {
        self.now = now
        engine = EngineFixture.engine(disk.restored(), seed: seed, hasTLS: hasTLS, startedAt: now.date, change)
        for row in disk.bindings.values.sorted(by: { $0.id < $1.id }) { _ = engine.restore(row, now: now) }
        for call in disk.calls.values.sorted(by: { $0.id < $1.id }) { engine.restore(call, now: now) }
        engine.restored(now: now)
    }

    /// Creates a bench on which bob's phone, or another contact of bob, is registered.
    static func registered(
        token: String? = "tok1", _ change: (inout ProxySettings) -> Void = { _ in }
    ) -> EngineBench {
        let bench = EngineBench(change)
        bench.register(token: token)
        return bench
    }

    /// Changes the settings of the running engine, as a reload does.
    func change(_ change: (inout ProxySettings) -> Void) {
        var settings = engine.settings
        change(&settings)
        engine.settingsChanged(settings, now: now)
    }

    static func udp(_ remote: Endpoint) -> Flow { Flow(transport: .udp, listener: 0, connection: 0, remote: remote) }

    /// Lets the engine process the message in `bytes`.
    ///
    /// - Returns: the actions that the engine ordered.
    @discardableResult
    func receive(_ bytes: [UInt8], from source: Endpoint = phone) -> [ProxyAction] {
        receive(bytes, on: Self.udp(source))
    }

    @discardableResult
    func receive(_ bytes: [UInt8], on flow: Flow) -> [ProxyAction] {
        let reader = MessageReader()
        switch reader.read(bytes.span, isStream: false) {
        case .request(let request): engine.requestReceived(request, on: flow, now: now)
        case .response(let response): engine.responseReceived(response, on: flow, now: now)
        case .unusable(let message): engine.unusableReceived(message, on: flow, now: now)
        }
        return take()
    }

    @discardableResult
    func take() -> [ProxyAction] {
        actions = engine.takeActions()
        for case .push(let transmission) in actions { tries[transmission.push.id] = transmission }
        return actions
    }

    func pass(_ duration: Duration) -> [ProxyAction] {
        let end = now.instant + duration
        var all: [ProxyAction] = []
        while let next = engine.nextDeadline, next <= end {
            now = Moment(instant: max(next, now.instant), date: now.date + (max(next, now.instant) - now.instant))
            engine.deadlineReached(now: now)
            all += take()
        }
        now = Moment(instant: end, date: now.date + (end - now.instant))
        return all
    }

    // MARK: Steps

    func registerText(
        user: String = "bob", token: String? = "tok1", callID: String = "r1", cseq: Int = 1,
        from source: Endpoint = phone,
        expires: Int = 3600, extra: [String] = []
    ) -> [UInt8] {
        let push = token.map { ";pn-provider=fcm;pn-param=p;pn-prid=\($0)" } ?? ""
        return SIPText.register(
            user: user, from: source, callID: callID, cseq: cseq, branch: "\(callID)x\(cseq)",
            contact: "<sip:\(user)@\(source)\(push)>", expires: expires, extra: extra)
    }

    /// Performs a whole registration: the request, the commit and the response.
    @discardableResult
    func register(
        user: String = "bob", token: String? = "tok1", callID: String = "r1", cseq: Int = 1,
        from source: Endpoint = phone,
        expires: Int = 3600, extra: [String] = []
    ) -> [ProxyAction] {
        let first = receive(
            registerText(
                user: user, token: token, callID: callID, cseq: cseq, from: source, expires: expires, extra: extra),
            from: source)
        return first + commitAll(in: first)
    }

    func commitAll(in actions: [ProxyAction], succeeded: Bool = true) -> [ProxyAction] {
        for action in actions {
            if case .commit(_, let ticket) = action { engine.committed(ticket, succeeded: succeeded, now: now) }
        }
        return take()
    }

    func inviteText(
        to user: String = "bob", callID: String = "call1", branch: String = "i1", extra: [String] = []
    ) -> [UInt8] {
        SIPText.invite(to: user, from: "103", at: Self.pbx, callID: callID, branch: branch, extra: extra)
    }

    @discardableResult
    func invite(to user: String = "bob", callID: String = "call1", branch: String = "i1", extra: [String] = [])
        -> [ProxyAction]
    {
        receive(inviteText(to: user, callID: callID, branch: branch, extra: extra), from: Self.pbx)
    }
}

extension EngineBench {
    /// Sends the CANCEL of a call from the PBX.
    @discardableResult
    func cancel(_ extra: [String] = [], callID: String = "call1", branch: String = "i1") -> [ProxyAction] {
        guard let invite = readRequest(inviteText(callID: callID, branch: branch)) else { return [] }
        return receive(SIPText.hopRequest("CANCEL", for: invite, extra: extra), from: Self.pbx)
    }

    /// Reports the final outcome of a push to the engine.
    func finish(_ push: PushID, _ outcome: PushOutcome = .accepted(nil)) {
        guard let transmission = tries[push] else {
            Issue.record("no such push has left")
            return
        }
        engine.pushHappened(Self.event(transmission, outcome), now: now)
    }

    /// Returns the event by which the dispatcher reports the outcome. The JSON answer in the event is valid for Google
    /// and for Acrobits' push server.
    static func event(
        _ transmission: PushDispatcher.Transmission, _ outcome: PushOutcome
    ) -> PushDispatcher.Event {
        func answer(_ result: String) -> PushDispatcher.Event {
            let answer = ProviderAnswer(status: 200, body: Array(#"{"code":200,"results":[{\#(result)}]}"#.utf8))
            return .answered(transmission, answer, after: .milliseconds(80))
        }
        switch outcome {
        case .accepted(nil): return answer("")
        case .accepted(let id?): return answer(#""message_id":"\#(id)""#)
        case .acceptedWithNewToken(let token):
            var text: [UInt8] = []
            text.append(jsonString: token)
            return answer(#""registration_id":\#(String(decoding: text, as: UTF8.self))"#)
        case .tokenDead(nil): return answer(#""error":"NotRegistered""#)
        // The event has no answer of the provider: an answer that asks for a retry would make the dispatcher send the
        // push again.
        case .retry: return .unanswered(transmission, .noConnection("no answer"), "no answer")
        case .tokenDead, .renewCredential, .credentialsRefused, .foreignToken, .noConnection, .payloadRefused,
            .noSuitableToken:
            return .unanswered(transmission, outcome, "no answer")
        }
    }

    /// Changes the settings so that pushes wait for a credential. The test itself decides when the credential is
    /// created.
    static func wantsCredential(_ settings: inout ProxySettings) {
        let sources = settings.dispatch.directory.apps.map { _ in PushCredentials.Source.made(0) }
        settings.dispatch.credentials = PushCredentials(sources, kinds: [.accessToken])
    }

    func makeCredential(_ order: PushCredentials.Order) -> [ProxyAction] {
        engine.pushHappened(.credentialMade(order, "k"), now: now)
        return take()
    }

    /// Bob's devices.
    var targets: [ForkTarget] { engine.targets(of: Self.bob, now: now) }
}

extension [UInt8] {
    /// A copy of the message in which the text `new` replaces the text `old`.
    func replacing(_ old: String, with new: String) -> [UInt8] {
        Array(String(decoding: self, as: UTF8.self).replacing(old, with: new).utf8)
    }
}

/// Describes the actions as short text, such as `200 REGISTER > phone` or `push invite tok1`.
func story(_ actions: [ProxyAction]) -> [String] {
    actions.compactMap { action in
        switch action {
        case .send(let bytes, let flow):
            let place =
                flow.remote == EngineBench.pbx ? "pbx" : flow.remote == EngineBench.phone ? "phone" : "\(flow.remote)"
            let reader = MessageReader()
            switch reader.read(bytes.span, isStream: false) {
            case .request(let request): return "\(request.method) > \(place)"
            case .response(let response): return "\(response.status) \(response.cseq.method) > \(place)"
            case .unusable: return "garbage > \(place)"
            }
        case .commit: return "commit"
        case .journal, .record, .refresh, .trace, .callEnded, .tell, .flowProved, .expectLife, .reuse, .makeCredential:
            return nil
        case .dryRunEnded(_, let canBePushed): return "dry run \(canBePushed)"
        case .testPushEnded(_, let record): return "test push \(record.answer?.rawValue ?? "")"
        case .push(let transmission):
            let request = transmission.push
            switch request.message {
            case .incomingCall: return "push invite \(request.token.prid)"
            case .missedCalls(let calls):
                return "push missed \(calls.map(\.remoteURI.string).joined(separator: ",")) \(request.token.prid)"
            case .silent: return "push silent \(request.token.prid)"
            case .notification(let notification):
                if let verb = notification.mediated?.verb { return "push \(verb.rawValue) \(request.token.prid)" }
                return "push \(notification.text) \(request.token.prid)"
            }
        case .reported(let ticket, let result): return "report \(ticket.number) \(result)"
        case .askUser(let question): return "ask \(question.name)"
        case .readKeys(let issuer): return "keys \(issuer)"
        case .userSettled(let ticket): return "login \(ticket.number)"
        case .resolve: return "resolve"
        case .storeRegisterCeiling: return "ceiling"
        case .readUsers: return "read"
        case .userLookedUp(let ticket, let isFresh): return "look \(ticket.number) \(isFresh)"
        case .findNodes: return "find nodes"
        case .findContacts: return "find contacts"
        case .readRegisterCeiling: return "read ceiling"
        case .endWaiting: return "end waiting"
        case .endInvite: return "end invite"
        }
    }
}

extension [ProxyAction] {
    /// The bytes of all messages that the actions send.
    var bytes: [[UInt8]] { compactMap { if case .send(let bytes, _) = $0 { bytes } else { nil } } }

    var texts: [String] { bytes.map { String(decoding: $0, as: UTF8.self) } }

    var transmissions: [PushDispatcher.Transmission] {
        compactMap { if case .push(let push) = $0 { push } else { nil } }
    }

    var pushes: [PushRequest] { transmissions.map(\.push) }

    var credentials: [PushCredentials.Order] {
        compactMap { if case .makeCredential(let order) = $0 { order } else { nil } }
    }

    var pushIDs: [PushID] { pushes.map(\.id) }
}

// MARK: Reading back

func readRequest(_ bytes: [UInt8]) -> SIPRequest? { SIPText.readRequest(bytes) }

/// The last request that the actions send.
func sentRequest(_ actions: [ProxyAction]) -> SIPRequest? { actions.bytes.compactMap(SIPText.readRequest).last }

func sentResponse(_ actions: [ProxyAction]) -> SIPResponse? { actions.bytes.compactMap(SIPText.readResponse).last }
