import Addressing
import Bytes
import Collections
import PushDelivery
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
/// It has the machines that own the state: the ``registrar``, the ``calls`` with their forks, the ``legs`` of both, the
/// ``transactions``, and the ``ledger`` of pushes. `ProxyEngine+Events` has all entry points. It hands each event to a
/// chapter and settles what follows. `ProxyEngine+Devices` does so for devices that come and go. A chapter calls only
/// files below it, never `ProxyEngine+Events`.
package final class ProxyEngine {
    package internal(set) var settings: ProxySettings
    package let identity: LocalIdentity
    let functions: ProxyFunctions
    let log: Log

    package internal(set) var registrar: Registrar
    var digest: DigestAuthenticator
    var sources: SourceLimits
    var flows: KnownFlows
    var refusals = Refusals()
    /// What is refused while more comes than can be served.
    package internal(set) var admission: Admission

    var transactions: TransactionTable
    var legs = ClientLegs()
    var unsettled = Unsettled()
    var tags: Tags

    var calls: Calls
    /// Requests other than calls that wait for phones.
    var messages: HeldMessages
    package internal(set) var ledger: PushLedger
    package internal(set) var dialogs: Dialogs
    /// Whether the upstream is there.
    package internal(set) var upstreamWatch = UpstreamWatch()
    var lookups = Lookups()

    var timers = DeadlineQueue<EngineTimer>()
    package internal(set) var counters = CounterSet()
    var actions: [ProxyAction] = []

    /// The `date` is the start of this run: ids of bindings begin there, beyond those of earlier runs.
    package init(
        settings: ProxySettings, identity: LocalIdentity, functions: ProxyFunctions, log: Log,
        restoring stored: StoredState = StoredState(), startedAt date: UnixTime
    ) {
        self.settings = settings
        self.identity = identity.asking(inRealm: settings.digest.realm)
        self.functions = functions
        self.log = log
        registrar = Registrar(
            settings: settings.registrar, users: stored.users,
            enabled: settings.configuredProviders.subtracting(stored.disabledProviders), startedAt: date)
        digest = DigestAuthenticator(settings: settings.digest, functions: functions.digest)
        sources = SourceLimits(settings.limits)
        flows = KnownFlows(settings)
        transactions = TransactionTable(branchKey: BranchKey(functions.random(), functions.random()))
        transactions.timers.ringLimit = settings.call.ringLimit
        ledger = PushLedger(
            settings, restoring: stored.bucketEntries, random: functions.random, deviceCode: functions.deviceCode,
            log: log)
        messages = HeldMessages(restoring: stored.messages)
        tags = Tags(key: functions.random())
        calls = Calls(packing: functions.packing, limits: HeldShares.Limits(settings))
        dialogs = Dialogs(run: UInt32(truncatingIfNeeded: functions.random()))
        registrar.answers = dialogs.run
        admission = Admission(limit: settings.limits.queueing)
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

    // MARK: Inside

    func act(_ action: ProxyAction) { actions.append(action) }

    @discardableResult
    func lookUp(_ hop: NextHop, for purpose: Lookups.Purpose) -> ResolutionTicket {
        let ticket = lookups.begin(for: purpose)
        act(.resolve(hop, ticket))
        return ticket
    }

    func withTransactions(_ body: (inout TransactionTable, inout [TransactionOutput]) -> Void) {
        body(&transactions, &unsettled.latest)
        // What is to be sent takes its place among the actions now; what the transactions tell waits for `settle`.
        unsettled.latest.reverse()
        while let output = unsettled.latest.popLast() {
            if case .send(let bytes, let flow) = output {
                act(.send(bytes, on: flow))
            } else {
                unsettled.outputs.append(output)
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
