import Addressing
import Bytes
import Calling
import ProxyCore
import ProxyPolicy
import PushDelivery
import Registration
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

/// A daemon that is killed and started again during a call to bob. Tests pass messages as text, and get the actions as
/// a story. The simulated disk keeps everything that was written before the crash.
final class RestartBench {
    private(set) var bench: EngineBench
    private(set) var disk = SimulatedDisk()
    private(set) var pushes: [PushRequest] = []
    /// The messages that the daemon has sent since the last step, in the order of sending.
    private(set) var sent: [ProxyAction] = []
    private var runs: UInt64 = 1
    private let change: (inout ProxySettings) -> Void
    /// The entries that the journal has written since ``journalled(_:)`` was last called.
    var written: [String] = []

    /// Whether the next run of the daemon has TLS listeners.
    var hasTLS: Bool

    init(hasTLS: Bool = false, _ change: @escaping (inout ProxySettings) -> Void = { _ in }) {
        self.change = change
        self.hasTLS = hasTLS
        bench = EngineBench(hasTLS: hasTLS, change)
    }

    /// Returns the entries that the journal writes while `body` runs. A journal entry must be in the same batch as the
    /// actions that depend on it, which ``told(_:)`` checks.
    func journalled(_ body: () -> Void) -> [String] {
        written = []
        body()
        return written
    }

    /// Performs all actions that the engine has ordered, including commits.
    @discardableResult
    func told(_ actions: [ProxyAction]) -> [String] {
        var story: [String] = []
        sent = []
        var actions = actions
        while !actions.isEmpty {
            sent += actions
            story += ProxyCoreTests.story(actions).filter { $0 != "commit" }
            pushes += actions.pushes
            let begun = Set(disk.calls.values.compactMap(\.userCall?.callID)).union(actions.compactMap(\.begunCall))
            for case .incomingCall(let call) in actions.pushes.map(\.message) {
                #expect(begun.contains(call.callID))
            }
            for action in actions {
                switch action {
                case .commit(let changes, let ticket): disk.queue(changes, ticket)
                case .journal(let change):
                    disk.journal(change)
                    written.append(change.word)
                case .record(let changes): disk.queue(changes, nil)
                default: break
                }
            }
            for ticket in disk.commit() { bench.engine.committed(ticket, succeeded: true, now: bench.now) }
            actions = bench.take()
        }
        return story
    }

    @discardableResult
    func register(
        _ user: String = "bob", token: String? = "tok1", cseq: Int = 1, from place: Endpoint = EngineBench.phone
    )
        -> [String]
    {
        told(bench.receive(bench.registerText(user: user, token: token, cseq: cseq, from: place), from: place))
    }

    @discardableResult
    func invite(callID: String = "call1", branch: String = "i1", extra: [String] = []) -> [String] {
        told(bench.invite(callID: callID, branch: branch, extra: extra))
    }

    @discardableResult
    func accepted(_ place: Int = 0) -> [String] {
        bench.finish(pushes[place].id)
        return told(bench.take())
    }

    func pass(_ duration: Duration) -> [String] { told(bench.pass(duration)) }

    /// Kills the daemon (`kill -9`), and starts its next run.
    @discardableResult
    func crash(downFor duration: Duration = .seconds(1)) -> [String] {
        disk.dropQueue()
        runs += 1
        let now = bench.now
        let later = Moment(
            // In the next run, the monotonic clock may begin at any value.
            instant: Instant(nanoseconds: 5_000_000_000), date: now.date + duration)
        bench = EngineBench(restarting: disk, at: later, seed: runs, hasTLS: hasTLS, change)
        return told(bench.take())
    }

    /// Lets the phone answer the last INVITE that it received.
    @discardableResult
    func answer(_ invite: SIPRequest?, _ status: Status, from place: Endpoint = EngineBench.phone) -> [String] {
        guard let invite else { return ["no INVITE"] }
        return told(bench.receive(SIPText.response(status, to: invite, tag: "p1"), from: place))
    }

    static func stream(_ connection: UInt64) -> Flow {
        Flow(
            transport: .tcp, listener: 1, connection: connection,
            remote: Endpoint(EngineBench.phone.address, UInt16(40_000 + connection)))
    }

    @discardableResult
    func registerByStream(_ connection: UInt64) -> [String] {
        let flow = Self.stream(connection)
        return told(
            bench.receive(
                SIPText.register(
                    user: "bob", from: flow.remote, transport: .tcp, callID: "s", cseq: Int(connection),
                    branch: "s\(connection)",
                    contact: "<sip:bob@\(flow.remote);transport=tcp;pn-provider=fcm;pn-param=p;pn-prid=tok1>",
                    expires: 3600), on: flow))
    }

    var lastINVITE: SIPRequest? { sent.bytes.compactMap(SIPText.readRequest).last { $0.method == .invite } }
    var lastResponse: SIPResponse? { sentResponse(sent) }

    /// Stores the rules of bob, or removes them from the store alone if `row` is `nil`.
    func keep(_ row: StoredUserRules?) {
        disk.userRules = [:]
        guard let row else { return }
        disk.userRules[row.aor] = row
        bench.engine.rulesSet(row)
    }

    func cancel() -> [String] { told(bench.cancel()) }

    /// Sends the caller's ACK of the last final response.
    func acknowledge(_ response: SIPResponse?) -> [String] {
        guard let invite = readRequest(bench.inviteText()), let response else { return ["no response"] }
        let to = response.frame.firstValue(of: .to)?.string ?? ""
        let ack = SIPText.hopRequest("ACK", for: invite).replacing("To: <sip:bob@example.net>", with: "To: \(to)")
        return told(bench.receive(ack, from: EngineBench.pbx))
    }

    /// Sends the caller's ACK of a phone's 2xx, along the route that the 2xx recorded.
    func acknowledgeAnswer(_ answer: SIPResponse, cseq: Int = 1) -> [String] {
        guard let invite = readRequest(bench.inviteText()) else { return ["no INVITE"] }
        let ack = SIPText.dialogRequest(
            "ACK", cseq: cseq, invite: invite, answer: answer, at: EngineBench.pbx, branch: "ack\(cseq)")
        return told(bench.receive(ack, from: EngineBench.pbx))
    }
}

extension ProxyAction {
    /// The Call-ID of the call whose start this action writes to the journal; `nil` for other actions.
    fileprivate var begunCall: ByteString? {
        guard case .journal(.begun(let call)) = self else { return nil }
        return call.userCall?.callID
    }
}

extension CallChange {
    fileprivate var word: String {
        switch self {
        case .begun(let call): "begun \(call.branches.count)"
        case .branch(_, let number, let branch): branch.sent == nil ? "branch \(number)" : "sent \(number)"
        case .final: "final"
        case .over: "over"
        case .missed: "missed"
        }
    }
}
