package import Addressing
import Bytes
import ProxyCore
import PushDelivery
import Registration
import SIPGrammar
import SIPMessage
import Timekeeping

/// The app on one simulated phone.
package struct SimulatedPhone {
    package let number: Int
    package let user: String
    package let name: String
    package let isOrdinary: Bool
    package let transport: Transport
    /// The number of SIP flows (RFC 5626) that the phone registers one after the other.
    package let flows: Int
    var endpoint: Endpoint
    var connection: UInt64?
    /// The daemon at which the phone registers.
    var node = 0
    var isAwake = false
    var isRegistered = false
    /// Whether the daemon has answered 200 to a REGISTER of this phone.
    var isAcknowledged = false
    /// The SIP flow on which the daemon last answered 200 to a REGISTER.
    var acknowledgedFlow: Flow?
    /// The Via branch of the REGISTER that last got 200.
    var acknowledged: ByteString?
    var registrations = 0
    /// How often the phone repeated its REGISTER on the current flow, as apps do after network notifications.
    var refreshes = 0
    /// When a node has last taken an earlier address of the phone for the present one.
    var overtakenAt = Instant.distantPast
    var firstRegistered = Instant.distantFuture
    var pushes = 0
    /// The Via branches and flows of the INVITEs that arrived, for each Call-ID.
    var invited: [String: [(branch: String, flow: Flow)]] = [:]
    /// The calls that the phone refused, also as merged requests, or whose push failed.
    var refused = Set<String>()
    var unpushed = Set<String>()
    var dialogs: [String: SimulatedDialog] = [:]
    /// The `pn-purr` value (RFC 8599 section 6) that the daemon gave to the phone for its Contacts.
    var purr = ""
    /// The Via branches of INVITEs that arrived as merged requests.
    var metTwice = Set<ByteString?>()

    init(number: Int, user: String, name: String, isOrdinary: Bool, transport: Transport, flows: Int) {
        self.flows = flows
        self.number = number
        self.user = user
        self.name = name
        self.isOrdinary = isOrdinary
        self.transport = transport
        endpoint = Endpoint(IPAddress(v4: 0xc000_0200 | UInt32(truncatingIfNeeded: number + 1)), 1)
    }

    /// The phone's current Contact value, with push parameters in a REGISTER.
    func contact(_ push: String = "") -> String {
        "sip:\(name)@\(endpoint)\(push)" + (purr.isEmpty ? "" : ";pn-purr=\(purr)")
    }

    var token: ByteString { ByteString("token-of-\(name)") }

    var registerCallID: String { "reg-\(name)-\(registrations)" }

    /// Whether one of the phone's flows has sent a REGISTER with the Call-ID since the app's start.
    func isRegistering(_ callID: ByteString) -> Bool {
        let text = callID.string
        return text == registerCallID || (1..<max(flows, 1)).contains { text == "\(registerCallID)f\($0)" }
    }

    mutating func wake(port: UInt16) {
        endpoint = Endpoint(endpoint.address, port)
        isAwake = true
        isRegistered = false
        registrations += 1
        refreshes = 0
    }

    mutating func registered() { isRegistered = true }

    /// Builds a REGISTER for one flow of the phone.
    ///
    /// - Parameter number: the number of the flow, from 0.
    /// - Returns: the REGISTER.
    func registerText(flow number: Int = 0) -> [UInt8] {
        let push = isOrdinary ? "" : ";pn-provider=fcm;pn-param=proj;pn-prid=\(token)"
        let stream = transport == .tcp ? ";transport=tcp" : ""
        let flow = flows > 1 ? ";reg-id=\(number + 1)" : ""
        let mark = number > 0 ? "f\(number)" : ""
        return SIPText.register(
            user: user, from: endpoint, transport: transport, callID: registerCallID + mark,
            cseq: 20 + refreshes, branch: "reg\(name)x\(registrations)x\(refreshes)\(mark)",
            contact: "<\(contact(push))\(stream)>;+sip.instance=\"<urn:uuid:\(name)>\"\(flow)",
            extra: flows > 1 ? ["Supported: outbound"] : [])
    }
}

struct SimulatedDialog {
    let invite: SIPRequest
    /// The daemon that sent the INVITE.
    let node: Int
    var final: Status?
    var isAcknowledged = false
}

/// One call of the simulated day, as the PBX and the provider saw it.
package struct SimulatedCall {
    package let caller: String
    package let user: String
    package let callID: String
    let startedAt: Instant
    /// The daemon that gets the INVITE from the PBX.
    let node: Int
    /// The daemon that has the call now, and since when. Another daemon may take over the call.
    var owner: (node: Int, since: Instant)
    /// Whether another node has taken over the call while its first node still had the call.
    var hasTwoOwners = false
    /// Whether another node, or another run of the same node, has continued the call.
    var hasChangedOwner = false
    /// The node that last sent a phone the call in its list of missed calls, and the phones that may get the call twice.
    var lastReport: [Int: (node: Int, at: Instant)] = [:]
    var reportsOverlap = Set<Int>()
    /// Whether the store did not answer when the call came, so that its node may not know all phones of the user.
    var startedBlind = false
    /// Whether a phone has answered on a flow that its node does not know, so that the answer may have no effect.
    var hasStrayAnswer = false
    /// The only called phone, with its Contact as the caller knows it; `nil` if all phones of the user are called.
    let target: (phone: Int, uri: String)?
    /// The user's contact at the PBX, if the daemon registers the user there.
    var contact: String?
    var invite: SIPRequest?
    var sawProvisional = false
    var gaveUp = false
    var wasAnsweredElsewhere = false
    var cancelAnswered = false
    /// The different final responses that arrived at the PBX.
    var finals: [Status] = []
    /// Whether the daemon crashed during the call.
    var sawCrash = false
    /// Whether a crash lost the call, because the call was not on the disk.
    var wasLost = false
    /// The phones whose response of 180 or higher reached the daemon.
    var reached = Set<Int>()
    /// The phones whose response the daemon certainly accepted, on a registered flow or on a flow that got the INVITE.
    var surelyReached = Set<Int>()
    /// Whether the daemon has ended the call, even if its final response has not reached the caller.
    var isOverForDaemon = false
    /// The phones that reported ringing only after the daemon's final response.
    var rangAfterEnd = Set<Int>()
    var wasAnswered = false
    /// Whether the daemon certainly accepted a phone's 200, on a registered flow or on a flow that got the INVITE.
    var wasSurelyAnswered = false
    /// The number of phones' answers that reached the daemon before an answer reached the caller.
    var answersHeard = 0
    /// The number of final responses that the daemon sent to the caller, with repetitions.
    var finalsSent = 0
    /// Whether a phone declined for all phones of the user (6xx).
    var wasDeclined = false
    /// Whether a connection broke while it carried an INVITE of the call. If the INVITE arrived all the same, the
    /// phone's answer is too late.
    var lostAPhone = false
    /// The number of pushes that reported the missed call, for each phone.
    var reports: [Int: Int] = [:]
    var reportsUnderWay = Set<Int>()
    var reportsInFlightAtCrash = Set<Int>()

    init(
        caller: String, user: String, callID: String, startedAt: Instant, target: (phone: Int, uri: String)? = nil,
        node: Int = 0
    ) {
        self.node = node
        owner = (node, startedAt)
        self.target = target
        self.caller = caller
        self.user = user
        self.callID = callID
        self.startedAt = startedAt
    }

    var isOver: Bool { !finals.isEmpty }
    package var isForOnePhone: Bool { target != nil }
    package var wasTaken: Bool { wasAnswered }
}

/// The future events of the simulation, in the order of their times and then of their planning.
struct Agenda {
    private var heap: [(instant: Instant, number: Int, event: (SimulatedWorld) -> Void)] = []
    private var planned = 0

    var next: Instant? { heap.first?.instant }

    mutating func add(_ event: @escaping (SimulatedWorld) -> Void, at instant: Instant) {
        planned += 1
        heap.append((instant, planned, event))
        var child = heap.count - 1
        while child > 0, isBefore(child, (child - 1) / 2) {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    mutating func pop() -> ((SimulatedWorld) -> Void)? {
        guard let first = heap.first else { return nil }
        let last = heap.removeLast()
        guard !heap.isEmpty else { return first.event }
        heap[0] = last
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < heap.count && isBefore(child, least) {
                least = child
            }
            guard least != parent else { return first.event }
            heap.swapAt(parent, least)
            parent = least
        }
    }

    private func isBefore(_ left: Int, _ right: Int) -> Bool {
        (heap[left].instant, heap[left].number) < (heap[right].instant, heap[right].number)
    }
}

/// Reads SIP messages as the daemon does.
final class SimulatedReader {
    private var reader = MessageReader()

    func read(_ bytes: [UInt8]) -> ReadMessage { reader.read(bytes.span, isStream: false) }
}
