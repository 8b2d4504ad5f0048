package import Addressing
package import Bytes
package import PushDelivery
package import Registration
package import SIPGrammar
import SIPTransactions
import Timekeeping

/// A fork with what the engine needs to act for it. A class, so that the engine's chapters change it in place.
final class ForkContext {
    var fork: Fork
    let server: ServerTransactionID
    /// Where the request came from.
    let source: Flow
    /// The user who has shown a password for it.
    var sender: AddressOfRecord?
    /// The request's bytes alone, for branches that start later and for our own final response; dropped with the final.
    var request: ByteString
    /// The call this fork belongs to, when it is an INVITE for one of our users.
    var call: OfferedCall?
    /// When the wait for sleeping devices ends.
    var deadline: DeadlineID?
    /// Who holds it, until its request is dropped.
    let accounts: [HeldShares.Account]
    /// What the caller's CANCEL gave as its Reason.
    var callerReasons: [ByteString] = []
    /// The bucket was told of the answer.
    var wasAnswered = false
    /// What each of its branches may have of the request's Max-Breadth (RFC 5393).
    var breadth: UInt32 = 1

    init(
        fork: Fork, server: ServerTransactionID, source: Flow, request: ByteString, call: OfferedCall?,
        accounts: [HeldShares.Account]
    ) {
        self.accounts = accounts
        self.fork = fork
        self.server = server
        self.source = source
        self.request = request
        self.call = call
    }
}

extension ForkContext {
    /// What it holds while its request is kept.
    var share: HeldShares.Share { HeldShares.Share(calls: fork.isInvite ? 1 : 0, bytes: request.count) }
}

/// An INVITE for one of our users, from its arrival to its end.
struct OfferedCall {
    let aor: AddressOfRecord
    let ref: CallRef
    let key: OfferKey
    let receivedAt: UnixTime
    /// When a push for it is worth nothing any more: the end of the hold (A12, A26).
    let pushDeadline: UnixTime
    /// The same by the other clock.
    let holdUntil: Instant
    /// Its caller may have phones woken.
    var mayPush = true
}

/// What makes two INVITEs the same call for one user: a caller's fork that arrives twice (RFC 3261 section 8.2.2.2).
struct OfferKey: Hashable {
    let aor: AddressOfRecord
    let callID: ByteString
    let fromTag: ByteString
}

/// One request under way to a next hop.
struct ClientLeg {
    let fork: ForkID
    let branch: Int
    /// Timer C (RFC 3261 section 16.8); INVITE only.
    var provisionalTimer: DeadlineID?
    /// Further addresses of the same next hop, tried when this one does not answer (RFC 3263 section 4.3), and what to
    /// change in the request then.
    var alternatives: [ResolvedHop] = []
    var edits: RequestEdits?
    var device: DeviceID?
    /// A provisional response came: the request has arrived, whatever becomes of the connection.
    var hasArrived = false
    /// Its connection has ended, and the branch waits for the phone; only a late answer still counts.
    var isLost = false
}

/// Places that have just refused a connection, so that not every large request to them waits for that again.
struct PlacesWithoutTCP {
    private var ends: [Endpoint: Instant] = [:]

    private static let limit = 256
    private static let age: Duration = .seconds(300)

    func contains(_ place: Endpoint, now: Instant) -> Bool { ends[place].map { now < $0 } ?? false }

    mutating func add(_ place: Endpoint, now: Instant) {
        if ends.count >= Self.limit { ends = ends.filter { now < $0.value } }
        if ends.count >= Self.limit { ends.removeAll() }
        ends[place] = now + Self.age
    }
}

/// One address a name stands for.
package struct ResolvedHop: Hashable, Sendable {
    package let transport: Transport
    package let endpoint: Endpoint
    /// The transport was asked for: a large request does not go by another (RFC 3261 section 18.1.1).
    package let isFixed: Bool

    package init(transport: Transport, endpoint: Endpoint, isFixed: Bool = false) {
        self.transport = transport
        self.endpoint = endpoint
        self.isFixed = isFixed
    }

    var fixed: ResolvedHop { ResolvedHop(transport: transport, endpoint: endpoint, isFixed: true) }
}

struct PendingResolution {
    let fork: ForkID
    let branch: Int
    let edits: RequestEdits
    /// The hop names its transport.
    let hasTransport: Bool
    let hop: NextHop
}

enum EngineTimer: Sendable {
    case holdDeadline(ForkID)
    /// Refreshed bindings are to be written.
    case bookkeepingDue
    /// Calls that have begun are to be written down.
    case openingsDue
    /// Timer C.
    case provisionalMissing(ClientTransactionID)
    /// A list of missed calls that its provider did not take is to be sent once more.
    case reportDue(DeviceID, AddressOfRecord)
    /// A call that is over need not be kept any more for phones that were woken for it.
    case endedCallDue
}

/// Why a push was sent.
enum PushPurpose {
    case call(PushCode, ForkID, branch: Int, device: DeviceID, aor: AddressOfRecord)
    case missedCalls(PushCode, device: DeviceID, aor: AddressOfRecord, [CallRef])
    case notification(PushCode, device: DeviceID, aor: AddressOfRecord)

    var code: PushCode {
        switch self {
        case .call(let code, _, _, _, _), .missedCalls(let code, _, _, _), .notification(let code, _, _): code
        }
    }

    var device: DeviceID {
        switch self {
        case .call(_, _, _, let device, _), .missedCalls(_, let device, _, _),
            .notification(_, let device, _):
            device
        }
    }
}

/// A list of missed calls that was not taken.
struct FailedReport {
    var count: Int
    let timer: DeadlineID
}

/// What changes an AOR's devices.
enum DeviceWork {
    case register(IncomingRequest)
    case report(ReportedDevice, ReportTicket)
    case removal(DeviceSelection, ReportTicket)
}

/// The work on one AOR: the first waits for its commit, the others for their turn (RFC 3261 section 10.3).
struct RegisterQueue {
    var current: DeviceWork
    var plan: RegisterPlan
    var waiting: [DeviceWork] = []

    /// Places for what else concerns the user, besides one for each device: all of them may wake at once.
    static let reserve = 8
}

/// Functions the rules need and may not contain: they come from libraries, or would not repeat in a test.
package struct ProxyFunctions {
    package let seal: DialogSeal
    package let random: () -> UInt64
    /// Reads a kept request again; its bytes were read before, so `nil` never comes from a peer.
    package let reread: (ByteString) -> SIPRequest?
    package let digest: DigestFunctions

    package init(
        seal: DialogSeal, random: @escaping () -> UInt64,
        reread: @escaping (ByteString) -> SIPRequest?, digest: DigestFunctions
    ) {
        self.seal = seal
        self.random = random
        self.reread = reread
        self.digest = digest
    }
}

/// What was on disk when the program started, less the bindings: ``ProxyEngine/restore(_:now:)`` takes them one by one.
package struct StoredState: Sendable {
    package var users: UserDirectory
    package var bucketEntries: [StoredBucketEntry]
    package var disabledProviders: Set<PushProvider>

    package init(
        users: UserDirectory = UserDirectory(), bucketEntries: [StoredBucketEntry] = [],
        disabledProviders: Set<PushProvider> = []
    ) {
        self.users = users
        self.bucketEntries = bucketEntries
        self.disabledProviders = disabledProviders
    }
}
