package import Addressing
import Bytes
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
/// The way of a message: ``requestReceived(_:on:now:)`` matches the transaction and picks a chapter:
/// `ProxyEngine+Register`, `+Invite`, `+Dialog`, `+Cancel`; responses come back through `+Relay`, where what a fork orders
/// is carried out too; our own are in `+Answers`. `+Hold` waits for devices, `+Moves` follows those that come back or move,
/// `+Push` reads the providers' answers, `+MissedCalls` keeps the buckets, `+Notification` sends what is no call,
/// `+Timeline` writes down what was done, `+Lifecycle` what apps say of their pushes.
package final class ProxyEngine {
    package internal(set) var settings: ProxySettings
    package let identity: LocalIdentity
    let functions: ProxyFunctions
    let log: Log

    package internal(set) var bindings: BindingTable
    package internal(set) var users: UserDirectory
    var registrar: RegisterProcessor
    var digest: DigestAuthenticator
    var logins: LoginLimit
    /// Lines about REGISTERs that are refused.
    var refusedRegisters = LogRateLimit(burst: 20)
    var challengedRegisters = LogRateLimit()
    var transactions: TransactionTable
    var timers = DeadlineQueue<EngineTimer>()
    package internal(set) var buckets: BucketTable
    package internal(set) var enabledProviders: Set<PushProvider>

    var forks: [ForkID: ForkContext] = [:]
    /// Which fork a server transaction feeds, for CANCEL.
    var forkOfServer: [ServerTransactionID: ForkID] = [:]
    var legs: [ClientTransactionID: ClientLeg] = [:]
    /// The devices that calls are offered to.
    var called = CalledDevices()
    /// When flows last showed life; `nil` when nobody asks.
    var life: FlowLife?
    var offers: [OfferKey: ForkID] = [:]
    var pushes: [PushID: PushPurpose] = [:]
    package internal(set) var timeline: PushTimeline
    package internal(set) var unread: UnreadPushes
    /// Calls to nobody that get a record.
    var strayLimit = RateLimit<Bool>(perMinute: 600)
    var deviceLimit: RateLimit<DeviceID>
    var notificationLimit: RateLimit<DeviceID>
    var callerLimit: RateLimit<Sender>
    var shares = HeldShares()
    var endedCalls = EndedCalls()
    var farewells: [ClientTransactionID: Farewell] = [:]
    /// Devices whose list of missed calls waits for another try, and how often it failed.
    var failedReports: [DeviceID: FailedReport] = [:]
    var registersInFlight: [AddressOfRecord: RegisterQueue] = [:]
    var commits: [CommitTicket: AddressOfRecord] = [:]
    var resolutions: [ResolutionTicket: PendingResolution] = [:]
    /// Bindings whose expiry and CSeq in the store are behind.
    var refreshedLately = Set<DeviceID>()
    var lastNumber: UInt64 = 0
    var dateField = DateField()
    var withoutTCP = PlacesWithoutTCP()
    /// The log says once that a next hop is this daemon itself.
    var hasToldOfOwnHop = false
    let tagKey: UInt64
    /// Realms that phones show us passwords for.
    let ownRealms: [ByteString]
    /// Marks this run of the program in dialog tokens: numbers of connections mean nothing in any other.
    let run: UInt32
    /// Dialogs that were renewed.
    package internal(set) var dialogs: DialogLives
    var provedPlaces = ProvedPlaces()
    /// What the upstream's name stands for, as far as it was looked up.
    var upstreamPlaces: [Endpoint] = []

    package internal(set) var counters = CounterSet()
    private var actions: [ProxyAction] = []
    private var outputs: [TransactionOutput] = []
    /// Outputs before it are carried out.
    private var nextOutput = 0

    /// The `date` is the start of this run: ids of bindings begin there, beyond those of earlier runs.
    package init(
        settings: ProxySettings, identity: LocalIdentity, functions: ProxyFunctions, log: Log,
        restoring stored: StoredState = StoredState(), startedAt date: UnixTime
    ) {
        self.settings = settings
        self.identity = identity
        self.functions = functions
        self.log = log
        users = stored.users
        registrar = RegisterProcessor(settings: settings.registrar)
        digest = DigestAuthenticator(settings: settings.digest, functions: functions.digest)
        logins = LoginLimit(
            perSource: settings.limits.wrongLoginsPerSource, perUser: settings.limits.wrongLoginsPerUser)
        transactions = TransactionTable(branchKey: BranchKey(functions.random(), functions.random()))
        tagKey = functions.random()
        ownRealms = settings.digest.realm.map { [ByteString($0).lowercased()] } ?? identity.domains
        run = UInt32(truncatingIfNeeded: functions.random())
        dialogs = DialogLives()
        buckets = BucketTable(settings: settings.bucket, restoring: stored.bucketEntries)
        timeline = PushTimeline(limit: settings.timelineLimit)
        unread = UnreadPushes(limit: settings.unreadLimit, maximumAge: settings.unreadAge)
        deviceLimit = RateLimit(perMinute: settings.call.pushesPerDevice)
        callerLimit = RateLimit(perMinute: settings.call.pushesPerCaller)
        notificationLimit = RateLimit(perMinute: settings.notificationsPerDevice)
        if settings.call.ringLiveFlowWithin > .zero { life = FlowLife(span: settings.call.ringLiveFlowWithin) }
        enabledProviders = settings.configuredProviders.subtracting(stored.disabledProviders)
        bindings = BindingTable(
            enabled: ProviderSet(enabledProviders), startedAt: date)
    }

    /// The actions since the last call, in the order to perform them.
    package func takeActions() -> [ProxyAction] {
        var taken: [ProxyAction] = []
        takeActions(into: &taken)
        return taken
    }

    /// The same for whoever brings an array whose room can be used again; what it held is dropped.
    package func takeActions(into taken: inout [ProxyAction]) {
        taken.removeAll(keepingCapacity: true)
        swap(&taken, &actions)
    }

    package var nextDeadline: Instant? {
        [transactions.nextDeadline, timers.nextDeadline, bindings.nextExpiry].compactMap { $0 }.min()
    }

    /// Takes a binding from the store at start-up; false when its row is to be deleted.
    package func restore(_ row: StoredBinding, now: Moment) -> Bool {
        bindings.restore(row, settings: settings.registrar, now: now)
    }

    // MARK: What happened

    package func requestReceived(_ request: SIPRequest, on flow: Flow, now: Moment) {
        let incoming = IncomingRequest(request, on: flow, isTrusted: isTrusted(flow.remote))
        counters.count(Counter(request.method))
        switch transactions.requestReceived(request, now: now.instant, into: &outputs) {
        case .new(let key): dispatch(incoming.unmatched(key), now: now)
        case .cancel(let key, let invite): cancelReceived(incoming.unmatched(key), of: invite, now: now)
        case .endToEndACK: ackReceived(incoming, now: now)
        case .absorbed, .acknowledged: break
        }
        if request.method != .register { noteLife(on: flow, by: .request, now: now) }
        settle(now: now)
    }

    package func responseReceived(_ response: SIPResponse, on flow: Flow, now: Moment) {
        transactions.responseReceived(response, now: now.instant, into: &outputs)
        settle(now: now)
        noteLife(on: flow, by: .response, now: now)
        settle(now: now)
    }

    /// A message that could not be served; its answer, if there is one, goes out without a transaction.
    package func unusableReceived(_ message: UnusableMessage, on flow: Flow, now: Moment) {
        counters.count(Counter(message.reason))
        guard let answer = message.answer else { return }
        counters.count(Counter(answer.status))
        let via = answer.frame.viaAddition(source: flow.remote)
        let bytes = answer.frame.response(answer.status, toTag: newTag(), viaAddition: via, fields: [])
        guard isTrusted(flow.remote) || bytes.count <= flow.answerLimit(to: answer.frame) else { return }
        act(.send(bytes, on: flow))
    }

    package func deadlineReached(now: Moment) {
        transactions.deadlineReached(now: now.instant, into: &outputs)
        settle(now: now)
        while let timer = timers.popExpired(now: now.instant) {
            switch timer {
            case .holdDeadline(let fork): holdDeadlineReached(fork, now: now)
            case .bookkeepingDue: bookkeepingDue(now: now)
            case .openingsDue: openingsDue()
            case .provisionalMissing(let client): timerCFired(client, now: now)
            case .reportDue(let device, let aor): reportDue(to: device, of: aor, now: now)
            case .endedCallDue: endedCallDue(now: now)
            }
            settle(now: now)
        }
        removeExpiredBindings(now: now)
    }

    // MARK: Inside

    func act(_ action: ProxyAction) { actions.append(action) }

    /// Carries out what the transactions put out, until nothing new comes.
    func settle(now: Moment) {
        // Carrying one out may lead here again: the inner call goes on where the outer one stands.
        while nextOutput < outputs.count {
            let output = outputs[nextOutput]
            nextOutput += 1
            switch output {
            case .send(let bytes, let flow): act(.send(bytes, on: flow))
            case .responseReceived(let client, let response): relay(response, of: client, now: now)
            case .clientTimedOut(let client): legFailed(client, with: .requestTimeout, now: now)
            case .clientTransportFailed(let client): legFailed(client, with: .serviceUnavailable, now: now)
            case .clientEnded(let client): legEnded(client)
            case .serverEnded(let server): serverEnded(server)
            case .serverTimedOut, .strayResponse: break
            }
        }
        outputs.removeAll(keepingCapacity: true)
        nextOutput = 0
    }

    /// A trusted peer's request has its transaction at once. Of others nothing is kept until it is known that they are
    /// served: whatever they are refused with, a challenge above all, is sent statelessly (T4.2).
    private func dispatch(_ incoming: IncomingRequest, now: Moment) {
        guard let incoming = incoming.isTrusted ? begun(incoming, now: now) : incoming else { return }
        let request = incoming.request
        let isRegister = request.method == .register && identity.home(of: request.uri) != nil
        let isQuestion = isQuestionToUs(request)
        if let refusal = RequestValidation.check(
            request, fromTrusted: incoming.isTrusted, isForUs: isRegister || isQuestion,
            transactions: transactions)
        {
            refuse(incoming, refusal.status, fields: refusal.fields, now: now)
            return
        }
        if request.uri.scheme == .sips {
            refuse(incoming, .temporarilyUnavailable, fields: [sipsNotAllowed], now: now)
            return
        }
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
        case .forged: refuse(incoming, .forbidden, now: now)
        }
    }

    /// An OPTIONS that is addressed to us, or that has come as far as it may (RFC 3261 sections 11 and 16.3 item 3).
    private func isQuestionToUs(_ request: SIPRequest) -> Bool {
        guard request.method == .options else { return false }
        return request.maxForwards == 0 || request.uri.user == nil && identity.isUs(request.uri)
    }

    /// The same request with a transaction of its own; `nil` when there is no room for one: it was answered then.
    func begun(
        _ incoming: IncomingRequest, cancelling invite: ServerTransactionID? = nil, now: Moment
    ) -> IncomingRequest? {
        guard incoming.server == nil, let key = incoming.key else { return incoming }
        guard
            let server = transactions.begin(
                key, for: incoming.request, cancelling: invite, respondOn: incoming.responseFlow, now: now.instant)
        else {
            counters.count(.rejectedOverload)
            sendStateless(incoming, .serviceUnavailable)
            return nil
        }
        return incoming.matched(server)
    }

    func nextNumber() -> UInt64 {
        lastNumber &+= 1
        return lastNumber
    }

    func withTransactions(_ body: (inout TransactionTable, inout [TransactionOutput]) -> Void) {
        let before = outputs.count
        body(&transactions, &outputs)
        // What is to be sent takes its place among the actions now; what the transactions tell waits for `settle`.
        var end = before
        for index in before..<max(before, outputs.count) {
            if case .send(let bytes, let flow) = outputs[index] {
                act(.send(bytes, on: flow))
            } else {
                outputs.swapAt(end, index)
                end += 1
            }
        }
        outputs.removeLast(outputs.count - end)
    }
}
