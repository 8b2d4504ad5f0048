import Addressing
import Bytes
import LocationService
import ProxyCore
import ProxyPolicy
import PushDelivery
import Registration
import Routing
import SIPGrammar
import SIPMessage
import Telemetry
import TestSupport
import Testing
import Timekeeping
import UpstreamRegistration

/// A test bench with an engine that keeps its users registered at the PBX `10.0.0.2`, and with a simulated PBX that
/// answers.
@dynamicMemberLookup
struct PBXBench {
    let bench: EngineBench
    private var pbx = TestPBX()

    init(
        users: UserDirectory = TestDigest.users("bob", "eve"), log: Log = .silent,
        _ change: (inout ProxySettings) -> Void = { _ in }
    ) {
        bench = EngineBench(users: users, log: log) { settings in
            var group = UpstreamRegistrationSettings()
            group.upstream = NextHop("sip:10.0.0.2:5060")
            settings.upstreamRegistrations = [ByteString("example.net"): group]
            change(&settings)
        }
    }

    var engine: ProxyEngine { bench.engine }

    subscript<Value>(dynamicMember member: WritableKeyPath<TestPBX, Value>) -> Value {
        get { pbx[keyPath: member] }
        set { pbx[keyPath: member] = newValue }
    }

    func token(of user: String = "bob") -> String { pbx.token(of: user) }

    /// Lets time pass, and answers the requests that the engine sends to the PBX.
    ///
    /// - Returns: all actions that the engine ordered.
    @discardableResult
    mutating func pass(_ duration: Duration) -> [ProxyAction] {
        var all: [ProxyAction] = []
        let end = bench.now.instant + duration
        repeat {
            all += react(to: bench.pass(min(.milliseconds(100), end - bench.now.instant)))
        } while bench.now.instant < end
        return all
    }

    /// Answers the actions' requests to the PBX as the PBX, and returns the given actions and all actions that follow.
    @discardableResult
    mutating func react(to actions: [ProxyAction]) -> [ProxyAction] {
        var (all, waiting) = (actions, actions)
        while !waiting.isEmpty {
            let current = waiting
            waiting = []
            for action in current {
                switch action {
                case .storeRegisterCeiling(let ceiling):
                    engine.registerCeilingStored(ceiling, now: bench.now)
                    waiting += bench.take()
                case .send(let bytes, let flow) where flow.remote == EngineBench.pbx:
                    guard let request = readRequest(bytes), let answer = pbx.answer(request) else { continue }
                    waiting += bench.receive(answer, from: EngineBench.pbx)
                default: break
                }
            }
            all += waiting
        }
        return all
    }

    func invite(to user: String, from source: Endpoint = EngineBench.pbx, callID: String = "call1") -> [ProxyAction] {
        bench.receive(
            SIPText.invite(
                to: user, domain: "10.0.0.1:5060", from: "103", at: source, callID: callID, branch: "b\(callID)"),
            from: source)
    }

    func options(to user: String, from source: Endpoint = EngineBench.pbx) -> [ProxyAction] {
        let text = SIPText.invite(
            to: user, domain: "10.0.0.1:5060", from: "103", at: source, callID: "o\(user)", branch: "o\(user)")
        return bench.receive(
            text.replacing("INVITE sip", with: "OPTIONS sip").replacing("1 INVITE", with: "1 OPTIONS"), from: source)
    }
}
