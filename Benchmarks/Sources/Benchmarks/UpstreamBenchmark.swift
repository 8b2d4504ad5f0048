import Addressing
import Bytes
import Foundation
import ProxyCore
import ProxyPolicy
import Registration
import Routing
import SIPGrammar
import SIPMessage
import TestSupport
import Timekeeping
import UpstreamRegistration

/// Measures an engine that keeps many users registered at a PBX: REGISTERs per second, memory of a user, and CPU time
/// of a REGISTER.
///
/// The PBX and the time are simulated in this process. The simulated PBX asks for passwords, and grants the requested
/// hour.
enum UpstreamBenchmark {
    static func run(_ options: BenchmarkOptions, into report: inout Report) throws(BenchmarkError) {
        let users = options.users
        let trial = UpstreamTrial(users: users)
        let before = try ProcessFigures(of: getpid())
        trial.begin(users)
        // Each user needs two REGISTERs: one without and one with credentials.
        trial.advance(by: .seconds(Int64(users * 2 / UpstreamTrial.rate(for: users)) + 60))
        let registered = try ProcessFigures(of: getpid())
        guard trial.registered == users else {
            report.complain("only \(trial.registered) of \(users) users are registered")
            return
        }
        trial.advance(by: .seconds(3600))
        let (sent, start) = (trial.sent, try ProcessFigures(of: getpid()))
        trial.advance(by: .seconds(3600))
        let end = try ProcessFigures(of: getpid())
        let count = trial.sent - sent
        report.add("upstream", "users", "", Double(users))
        report.add(
            "upstream", "memory of a registered user", "bytes",
            Double(registered.residentBytes - before.residentBytes) / Double(users))
        report.add("upstream", "REGISTERs a second, of an hour", "", Double(count) / 3600)
        report.add(
            "upstream", "CPU time for a REGISTER and its answer, with the simulated PBX", "µs",
            (end.cpu - start.cpu).seconds * 1e6 / Double(max(1, count)))
        try measureReturn(of: trial, users, into: &report)
    }

    /// Measures an hour without answers from the PBX, and then the time until the PBX has all registrations again.
    private static func measureReturn(
        of trial: UpstreamTrial, _ users: Int, into report: inout Report
    ) throws(BenchmarkError) {
        trial.isAway = true
        let before = (trial.sent, try ProcessFigures(of: getpid()))
        trial.advance(by: .seconds(3600))
        let after = try ProcessFigures(of: getpid())
        report.add("upstream", "REGISTERs a second while the PBX is away", "", Double(trial.sent - before.0) / 3600)
        report.add(
            "upstream", "memory more after an hour without the PBX", "bytes for each user",
            Double(after.residentBytes - before.1.residentBytes) / Double(users))
        trial.isAway = false
        trial.forgetRegistrations()
        var waited = 0
        while trial.listed < users, waited < users / 10 + 3600 {
            trial.advance(by: .seconds(60))
            waited += 60
        }
        guard trial.listed == users else {
            return report.complain("the PBX got only \(trial.listed) of \(users) users back in \(waited) s")
        }
        report.add("upstream", "until the PBX has all users again", "s", Double(waited))
    }
}

/// An engine whose users have phones with push tokens, and a simulated PBX with the same users.
private final class UpstreamTrial {
    private let engine: ProxyEngine
    private let reader = MessageReader()
    private var now = Moment(instant: Instant(nanoseconds: 1_000_000_000), date: UnixTime(seconds: 1_790_000_000))
    private var nonce = 0
    private(set) var sent = 0
    /// Whether the PBX answers no request.
    var isAway = false
    /// The users that the PBX has registered since it last forgot all registrations.
    private var known: Set<ByteString> = []

    var listed: Int { known.count }

    /// The setting `register-upstream.*.rate`, which must exceed 0.6 REGISTERs a second for each 1,000 users.
    static func rate(for users: Int) -> Int { max(50, users / 1000) }

    func forgetRegistrations() { known = [] }

    private static let pbx = Endpoint(IPAddress(v4: 0x0a00_0002), 5060)
    private static let phone = Endpoint(IPAddress(v4: 0xc000_0205), 40_000)

    var registered: Int {
        engine.upstreamUsers.agent.counts[.registered] + engine.upstreamUsers.agent.counts[.refreshing]
    }

    init(users: Int) {
        var directory = UserDirectory()
        for number in 0..<users {
            directory.add(
                DigestUser(
                    name: ByteString("user\(number)"), realm: ByteString("example.net"), password: ByteString("p"),
                    algorithms: [.md5], functions: .forTests))
        }
        // All phones register from one address at one instant.
        engine = EngineFixture.engine(StoredState(users: directory), seed: 1) { $0.limits.registersPerSource = 0 }
        for number in 0..<users {
            let contact = "<sip:user\(number)@192.0.2.5:40000;pn-provider=fcm;pn-param=p;pn-prid=token\(number)>"
            receive(
                SIPText.bytes([
                    "REGISTER sip:example.net SIP/2.0",
                    "Via: SIP/2.0/UDP \(Self.phone);branch=z9hG4bK\(number)", "Max-Forwards: 70",
                    "From: <sip:user\(number)@example.net>;tag=a", "To: <sip:user\(number)@example.net>",
                    "Call-ID: r\(number)", "CSeq: 1 REGISTER", "Contact: \(contact)", "Expires: 604800",
                ]), from: Self.phone)
        }
        // After 60 seconds, the transactions of the phones' REGISTERs have ended.
        advance(by: .seconds(60))
    }

    /// Adds the PBX to the settings, and the engine begins to register the users there.
    func begin(_ users: Int) {
        var settings = engine.settings
        var group = UpstreamRegistrationSettings()
        group.upstream = NextHop("sip:10.0.0.2:5060")
        group.rate = Self.rate(for: users)
        settings.upstreamRegistrations = [ByteString("example.net"): group]
        engine.settingsChanged(settings, now: now)
        drain()
    }

    func advance(by duration: Duration) {
        let end = now.instant + duration
        while let next = engine.nextDeadline, next <= end {
            let step = max(next, now.instant) - now.instant
            now = Moment(instant: now.instant + step, date: now.date + step)
            engine.deadlineReached(now: now)
            drain()
        }
        now = Moment(instant: end, date: now.date + (end - now.instant))
    }

    private func receive(_ bytes: [UInt8], from source: Endpoint) {
        let flow = Flow(transport: .udp, listener: 0, connection: 0, remote: source)
        switch reader.read(bytes.span, isStream: false) {
        case .request(let request): engine.requestReceived(request, on: flow, now: now)
        case .response(let response): engine.responseReceived(response, on: flow, now: now)
        case .unusable: break
        }
        drain()
    }

    private func drain() {
        while true {
            let actions = engine.takeActions()
            guard !actions.isEmpty else { return }
            for action in actions { follow(action) }
        }
    }

    private func follow(_ action: ProxyAction) {
        switch action {
        case .commit(_, let ticket): engine.committed(ticket, succeeded: true, now: now)
        case .storeRegisterCeiling(let ceiling): engine.registerCeilingStored(ceiling, now: now)
        case .send(let bytes, let flow) where flow.remote == Self.pbx:
            guard case .request(let request) = reader.read(bytes.span, isStream: false) else { return }
            answer(request)
        default: break
        }
    }

    private func answer(_ request: SIPRequest) {
        guard !isAway else { return sent += request.method == .register ? 1 : 0 }
        guard request.method == .register else {
            return receive(SIPText.response(200, to: request, tag: "p"), from: Self.pbx)
        }
        sent += 1
        guard !request.authorization.isEmpty else {
            nonce += 1
            let challenge = "Digest realm=\"example.net\", nonce=\"n\(nonce)-0123456789abcdef0123456789\", qop=\"auth\""
            return receive(
                SIPText.response(401, to: request, tag: "p", extra: ["WWW-Authenticate: \(challenge)"]), from: Self.pbx)
        }
        if let user = request.to.uri.user { known.insert(user.compacted()) }
        let contact = request.contacts.first.map { ["Contact: <\($0.uri.text)>;expires=3600"] } ?? []
        receive(SIPText.response(200, to: request, tag: "p", extra: contact), from: Self.pbx)
    }
}
