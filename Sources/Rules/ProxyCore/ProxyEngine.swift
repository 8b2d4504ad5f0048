import Addressing
import Bytes
import Collections
package import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
package import Telemetry
package import Timekeeping

/// The proxy's decisions for all AORs of one shard: registers, routes, forks, holds INVITEs, relays, keeps buckets.
///
/// Pure: knows no socket, clock or disk. Tell it what happened through the methods named in the past tense, then take
/// the actions with ``takeActions()`` and perform them in order. One thread uses it at a time: its shard's.
///
/// It routes what happens to the machines that own the state, and settles what they make of it: the ``registrar``, the
/// ``calls`` with their forks, the ``legs`` of both, the ``transactions``, and the ``ledger`` of pushes. Its chapters stand
/// with the machines: a request comes in by ``requestReceived(_:on:now:)`` and goes to `+Register`, `+Invite`, `+Dialog` or
/// `+Cancel`; `+Forward` sends it on, `+Responses` brings the answers back, and `+Answers` are our own. `+Hold` waits for
/// devices, `+Moves` follows those that come back or move, `+AfterEnd` tells those that come too late.
package final class ProxyEngine {
    package internal(set) var settings: ProxySettings
    package let identity: LocalIdentity
    let functions: ProxyFunctions
    let log: Log

    package internal(set) var registrar: Registrar
    var digest: DigestAuthenticator
    var logins: LoginLimit
    var registerLimit: RegisterLimit
    /// What is told of requests that are refused.
    var refusals = Refusals()
    /// How many log lines there may be about REGISTERs that are challenged.
    var challengedRegisters = LogRateLimit()
    /// Lines about challenges in realms of ours.
    var unanswerableLines = LogRateLimit()
    /// Lines about responses from elsewhere than their requests went.
    var strayedResponses = LogRateLimit()

    var calls: Calls
    var legs = ClientLegs()
    /// Calls that were answered, until they need not be kept for another run of the program any more.
    var answered = AnsweredCalls()
    /// Callers of an earlier run whose connections ended with it.
    var awayCallers = AwayCallers()
    /// Requests other than calls that wait for phones.
    var messages: HeldMessages
    var lastMessageCommit: UInt64 = 0
    /// What was stored, until the bindings are there.
    var storedMessages: [StoredMessage]
    var transactions: TransactionTable
    package internal(set) var ledger: PushLedger
    package internal(set) var enabledProviders: Set<PushProvider>
    /// When flows last showed life; `nil` when the settings do not ask for it.
    var life: FlowLife?
    /// Flows over UDP that must show life, and whether a timer waits for the next that may not have.
    var flowTimers = FlowTimers()
    var isWaitingForFlows = false
    var timers = DeadlineQueue<EngineTimer>()

    var lookups = Lookups()
    /// What is refused while more comes than can be served, and since when anything is.
    package internal(set) var admission: Admission
    var refusingSince: Instant?
    var refusedBefore: UInt64 = 0
    /// The daemon is about to end: it begins no calls.
    package internal(set) var isDraining = false
    /// Whether the upstream is there.
    package internal(set) var upstreamWatch = UpstreamWatch()
    /// The log says once that a next hop is this daemon itself.
    var hasToldOfOwnHop = false
    /// And that push tokens come unprotected.
    var unprotectedTokens = UnprotectedTokens()
    /// What the upstream's name stands for, as far as it was looked up.
    var upstreamPlaces: [Endpoint] = []
    /// Stands for that name.
    var upstreamServer = ServerNumber.none
    /// The names that the peers of open connections have proved, by the connections' numbers.
    var provedNames: [UInt64: [String]] = [:]

    var tags: Tags
    /// Realms that phones show us passwords for.
    let ownRealms: [ByteString]
    /// Marks this run of the program in dialog tokens: numbers of connections mean nothing in any other.
    let run: UInt32
    /// Dialogs that were renewed.
    package internal(set) var dialogs = DialogLives()
    var provedPlaces = ProvedPlaces()
    var dialogDevices = DialogDevices()
    /// How far the walk for contacts that end soon has come, and whether there is one.
    var refreshCursor: UInt32 = 0
    var isWalkingForRefresh = false

    package internal(set) var counters = CounterSet()
    var actions: [ProxyAction] = []
    var outputs: [TransactionOutput] = []
    /// The outputs before this index have been carried out.
    var nextOutput = 0
    /// What became of deliveries, until it is settled.
    var deliveries: [EndedDelivery] = []
    /// What the transactions put out just now. The array stays, so that its memory is used again.
    private var latest: [TransactionOutput] = []

    /// The `date` is the start of this run: ids of bindings begin there, beyond those of earlier runs.
    package init(
        settings: ProxySettings, identity: LocalIdentity, functions: ProxyFunctions, log: Log,
        restoring stored: StoredState = StoredState(), startedAt date: UnixTime
    ) {
        self.settings = settings
        self.identity = identity
        self.functions = functions
        self.log = log
        enabledProviders = settings.configuredProviders.subtracting(stored.disabledProviders)
        registrar = Registrar(
            settings: settings.registrar, users: stored.users, enabled: ProviderSet(enabledProviders),
            startedAt: date)
        digest = DigestAuthenticator(settings: settings.digest, functions: functions.digest)
        logins = LoginLimit(
            perSource: settings.limits.wrongLoginsPerSource, perUser: settings.limits.wrongLoginsPerUser)
        registerLimit = RegisterLimit(settings.limits)
        transactions = TransactionTable(branchKey: BranchKey(functions.random(), functions.random()))
        transactions.timers.ringLimit = settings.call.ringLimit
        ledger = PushLedger(settings, restoring: stored.bucketEntries, random: functions.random, log: log)
        messages = HeldMessages(after: stored.messages.map(\.id).max() ?? 0)
        storedMessages = stored.messages
        tags = Tags(key: functions.random())
        calls = Calls(packing: functions.packing, limits: HeldShares.Limits(settings))
        ownRealms = settings.digest.realm.map { [ByteString($0).lowercased()] } ?? identity.domains
        run = UInt32(truncatingIfNeeded: functions.random())
        registrar.answers = run
        admission = Admission(limit: settings.limits.queueing)
        if settings.call.ringLiveFlowWithin > .zero { life = FlowLife(span: settings.call.ringLiveFlowWithin) }
    }

    /// The actions since the last call, in the order to perform them.
    package func takeActions() -> [ProxyAction] {
        var taken: [ProxyAction] = []
        takeActions(into: &taken)
        return taken
    }

    /// As ``takeActions()``, into an array whose memory is used again; what it held before is dropped.
    package func takeActions(into taken: inout [ProxyAction]) {
        if !taken.isEmpty { taken.removeAll(keepingCapacity: true) }
        swap(&taken, &actions)
    }

    package var nextDeadline: Instant? {
        earlier(
            earlier(earlier(transactions.nextDeadline, timers.nextDeadline), upstreamWatch.nextDeadline),
            earlier(registrar.bindings.nextExpiry, ledger.nextDeadline))
    }

    // MARK: What happened

    // MARK: Inside

    func act(_ action: ProxyAction) { actions.append(action) }

    @discardableResult
    func lookUp(_ hop: NextHop, for purpose: Lookups.Purpose) -> ResolutionTicket {
        let ticket = lookups.begin(for: purpose)
        act(.resolve(hop, ticket))
        return ticket
    }

    func withTransactions(_ body: (inout TransactionTable, inout [TransactionOutput]) -> Void) {
        body(&transactions, &latest)
        // What is to be sent takes its place among the actions now; what the transactions tell waits for `settle`.
        latest.reverse()
        while let output = latest.popLast() {
            if case .send(let bytes, let flow) = output {
                act(.send(bytes, on: flow))
            } else {
                outputs.append(output)
            }
        }
    }
}

/// What the engine itself waits for; transactions and pushes have their own.
enum EngineTimer: Sendable {
    /// Of the call at that place of ``Calls``. It is cancelled with the call.
    case holdDeadline(place: UInt32)
    /// Refreshed bindings are to be written.
    case bookkeepingDue
    /// A call that is over need not be kept any more for phones that were woken for it.
    case endedCallDue
    /// Calls that were answered need not be kept for another run any more.
    case journalDue
    /// Callers of an earlier run do not come back any more.
    case awayCallersDue
    case messageDue(UInt64)
    /// Contacts that end soon are looked for.
    case refreshWalkDue
    /// A flow may have shown no life for as long as it should.
    case flowTimersDue
    /// The load that made us refuse work may be over.
    case reliefDue
    /// Somebody who was asked for a password may have shown none.
    case refusalsDue
    /// Nothing may have come back for a request: that of the call at that place, if it is still this one.
    case silence(place: UInt32, ForkID)
}

private func earlier(_ left: Instant?, _ right: Instant?) -> Instant? {
    guard let left, let right else { return left ?? right }
    return min(left, right)
}
