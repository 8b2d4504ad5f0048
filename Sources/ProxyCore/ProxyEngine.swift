package import Addressing
import Bytes
import Collections
package import PushDelivery
package import Registration
package import SIPGrammar
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
    private var storedMessages: [StoredMessage]
    var transactions: TransactionTable
    package internal(set) var ledger: PushLedger
    package internal(set) var enabledProviders: Set<PushProvider>
    /// When flows last showed life; `nil` when the settings do not ask for it.
    var life: FlowLife?
    /// Flows over UDP that must show life, and whether a timer waits for the next that may not have.
    var flowTimers = FlowTimers()
    var isWaitingForFlows = false
    var timers = DeadlineQueue<EngineTimer>()

    var resolutions: [ResolutionTicket: PendingResolution] = [:]
    private var lastResolution: UInt64 = 0
    var withoutTCP = PlacesWithoutTCP()
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
    private var outputs: [TransactionOutput] = []
    /// The outputs before this index have been carried out.
    private var nextOutput = 0
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
        ledger = PushLedger(
            settings, restoring: stored.bucketEntries, random: functions.random, deviceCode: functions.deviceCode,
            log: log)
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

    /// Takes a binding from the store at start-up; false when its row is to be deleted.
    package func restore(_ row: StoredBinding, now: Moment) -> Bool {
        guard registrar.restore(row, now: now) else { return false }
        if registrar.bindings.isFlow(row.id), row.path.isEmpty { toldFlowTimer([row.id], on: row.flow, now: now) }
        return true
    }

    /// Called once, after ``restore(_:now:)`` of all bindings.
    package func restored(now: Moment) {
        armAwayCallers(now: now)
        ledger.started(now: now, into: &actions)
        restoreMissedCalls(now: now)
        restoreMessages(storedMessages, now: now)
        storedMessages = []
        armRefreshPushes(now: now)
        watchUpstream(since: now.instant)
        noteUnfitContacts()
        settle(now: now)
    }

    // MARK: What happened

    package func requestReceived(_ request: SIPRequest, on flow: Flow, now: Moment) {
        let incoming = IncomingRequest(request, on: flow, isTrusted: isTrusted(flow))
        counters.count(Counter(request.method))
        if flow.isConnection {
            noteReuse(incoming)
            if !awayCallers.isEmpty { peerReturned(incoming) }
        }
        switch transactions.requestReceived(request, now: now.instant, into: &outputs) {
        case .new(let key):
            let incoming = incoming.unmatched(key)
            if !admission.isUnderPressure || !isRefusedForLoad(incoming, now: now) { dispatch(incoming, now: now) }
        case .cancel(let key, let invite): cancelReceived(incoming.unmatched(key), of: invite, now: now)
        case .endToEndACK: ackReceived(incoming, now: now)
        case .unanswered(let server):
            // Of what is kept, not of the copy: that may come from anybody who has seen the branch.
            if let incoming = calls.call(of: server).flatMap(revive) { sendTrying(incoming, now: now) }
        case .acknowledged(let server): journalOver(server)
        case .absorbed: break
        }
        if request.method != .register { noteLife(on: flow, by: .request, now: now) }
        settle(now: now)
    }

    package func responseReceived(_ response: SIPResponse, on flow: Flow, now: Moment) {
        if let match = transactions.client(of: response) {
            if transactions.accepts(responseFrom: flow, to: match, by: sender(on: flow, of: match.client)) {
                transactions.responseReceived(response, of: match, now: now.instant, into: &outputs)
                settle(now: now)
            } else {
                responseRefused(response, on: flow, to: match, now: now)
            }
        }
        noteLife(on: flow, by: .response, now: now)
        settle(now: now)
    }

    /// A message that could not be served; its answer, if there is one, goes out without a transaction.
    package func unusableReceived(_ message: UnusableMessage, on flow: Flow, now: Moment) {
        counters.count(Counter(message.reason))
        guard let answer = message.answer else { return }
        counters.count(Counter(answer.status))
        let via = answer.frame.viaAddition(source: flow.remote)
        let bytes = answer.frame.response(answer.status, toTag: tags.next(), viaAddition: via, fields: [])
        guard isTrusted(flow) || bytes.count <= flow.answerLimit(to: answer.frame) else { return }
        act(.send(bytes, on: flow))
    }

    package func deadlineReached(now: Moment) {
        transactions.deadlineReached(now: now.instant, into: &outputs)
        settle(now: now)
        while let timer = timers.popExpired(now: now.instant) {
            switch timer {
            case .holdDeadline(let place): if let call = calls.call(at: place) { holdDeadlineReached(call, now: now) }
            case .bookkeepingDue: bookkeepingDue(now: now)
            case .endedCallDue: endedCallDue(now: now)
            case .journalDue: journalDue(now: now)
            case .awayCallersDue: awayCallers = AwayCallers()
            case .messageDue(let id): messageDue(id, now: now)
            case .refreshWalkDue: refreshWalkDue(now: now)
            case .reliefDue: reliefDue(now: now.instant)
            case .flowTimersDue: flowTimersDue(now: now)
            case .refusalsDue: refusalsDue(now: now)
            case .silence(let place, let id):
                if let call = calls.call(at: place), call.id == id { silenceDue(of: call, now: now) }
            }
            settle(now: now)
        }
        upstreamDue(now: now)
        ledger.timePassed(now: now, into: &actions)
        pushesEnded(now: now)
        while let due = ledger.due(now: now, into: &actions) {
            legs.asked.timeOver(of: due.device, now: now.instant)
            if !legs.asked.isAsked(due.device) { reportMissedCalls(to: due.device, of: due.aor, now: now) }
        }
        removeExpiredBindings(now: now)
    }

    // MARK: Inside

    func act(_ action: ProxyAction) { actions.append(action) }

    /// Carries out what the transactions put out, until nothing new comes.
    func settle(now: Moment) {
        guard !outputs.isEmpty else { return }
        // Carrying one out may lead here again: the inner call goes on where the outer one stands.
        while nextOutput < outputs.count {
            // Moved out and not copied.
            let output = exchange(&outputs[nextOutput], with: .strayResponse)
            nextOutput += 1
            switch output {
            case .send(let bytes, let flow): act(.send(bytes, on: flow))
            case .responseReceived(let client, let response): received(response, of: client, now: now)
            case .clientTimedOut(let client): legFailed(client, with: .requestTimeout, now: now)
            case .clientRangTooLong(let client): legRangTooLong(client, now: now)
            case .clientTransportFailed(let client): legFailed(client, with: .serviceUnavailable, now: now)
            case .clientEnded(let client): legEnded(client)
            case .serverEnded(let server):
                journalOver(server)
                calls.serverEnded(server)
            case .provisionalDue(let server): provisionalDue(server, now: now)
            case .serverTimedOut, .strayResponse: break
            }
        }
        outputs.removeAll(keepingCapacity: true)
        nextOutput = 0
    }

    /// A trusted peer's request gets its transaction at once. Of any other request nothing is kept until it is known that it
    /// will be served: whatever refuses it, a challenge above all, is sent without a transaction (T4.2).
    private func dispatch(_ incoming: IncomingRequest, now: Moment) {
        guard let incoming = incoming.isTrusted ? begun(incoming, now: now) : incoming else { return }
        let request = incoming.request
        let isRegister = request.method == .register && identity.home(of: request.uri) != nil
        let isQuestion = isQuestionToUs(request)
        guard isFit(incoming, isForUs: isRegister || isQuestion, now: now) else { return }
        if isRegister {
            registerReceived(incoming, now: now)
            return
        }
        if isQuestion {
            refuse(incoming, .ok, fields: Self.capabilities, now: now)
            return
        }
        switch route(of: incoming.request) {
        case .dialog where Breadth.share(of: incoming.request, among: 1) == 0:
            refuse(incoming, .maxBreadthExceeded, now: now)
        case .dialog(let pass, let next): dialogRequestReceived(incoming, pass, next, now: now)
        case .initial(let next): initialRequestReceived(incoming, next, now: now)
        case .forged: refuse(incoming, .forbidden, because: .forgedRoute, now: now)
        }
    }

    /// Whether a request may go on by what it says; when not, it has been answered.
    func isFit(_ incoming: IncomingRequest, isForUs: Bool, now: Moment) -> Bool {
        if let refusal = RequestValidation.check(
            incoming.request, fromTrusted: incoming.isTrusted, isForUs: isForUs,
            branchKey: transactions.branchKey)
        {
            refuse(incoming, refusal.status, fields: refusal.fields, now: now)
            return false
        }
        if incoming.request.uri.scheme == .sips, !incoming.flow.transport.isSecure {
            refuse(incoming, .temporarilyUnavailable, because: .notSecure, fields: [sipsNotAllowed], now: now)
            return false
        }
        return true
    }

    /// An OPTIONS that is addressed to us, or that has come as far as it may (RFC 3261 sections 11 and 16.3 item 3).
    private func isQuestionToUs(_ request: SIPRequest) -> Bool {
        guard request.method == .options else { return false }
        return request.maxForwards == 0 || request.uri.user == nil && identity.isUs(request.uri)
    }

    /// Gives a request a transaction of its own. Where there is no room for one, it is answered, and the result is `nil`.
    func begun(
        _ incoming: IncomingRequest, cancelling invite: ServerTransactionID? = nil, now: Moment
    ) -> IncomingRequest? {
        guard incoming.server == nil, let key = incoming.key else { return incoming }
        guard
            let server = transactions.begin(
                key, for: incoming.request, cancelling: invite, respondOn: incoming.responseFlow, now: now.instant)
        else {
            counters.count(.rejectedOverload)
            noteRefused(incoming, .serviceUnavailable, because: .noRoom, now: now)
            sendStateless(incoming, .serviceUnavailable)
            return nil
        }
        return incoming.matched(server)
    }

    func newResolutionTicket() -> ResolutionTicket {
        lastResolution &+= 1
        return ResolutionTicket(lastResolution)
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
