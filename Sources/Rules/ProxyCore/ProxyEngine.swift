import Addressing
import Bytes
import Collections
import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
package import Telemetry
package import Timekeeping

/// The proxy's decisions for all AORs of one shard: it registers, routes, forks, holds INVITEs, relays, and keeps
/// buckets.
///
/// The engine is pure: it uses no socket, clock or disk. The shell reports events through the methods that are named in
/// the past tense. Then the shell takes the actions with ``takeActions()`` and performs them in order. Only the shard's
/// thread uses the engine.
///
/// The engine's machines own the state: the ``registrar``, the ``calls`` with their forks, the transactions (``sip``),
/// what waits for devices (``wakes``), and the ``ledger`` of pushes. `ProxyEngine+Events` has all entry points. It passes
/// each event to one extension of the engine, and then carries out the results. `ProxyEngine+Devices` does the same for
/// devices that come and go. An extension never calls `ProxyEngine+Events`.
package final class ProxyEngine {
    package internal(set) var settings: ProxySettings
    package let identity: LocalIdentity
    let functions: ProxyFunctions
    let log: Log

    package internal(set) var registrar: Registrar
    var digest: DigestAuthenticator
    var access: AccessControl
    var network: Network
    var sip: TransactionLayer

    var calls: Calls
    /// Calls, messages and lists that wait for devices.
    var wakes = WakeDesk()
    /// Held requests other than INVITE.
    var messages: HeldMessages
    package internal(set) var ledger: PushLedger
    package internal(set) var dialogs: Dialogs

    var output = EngineOutput()

    /// Starts an engine. `date` is the start of this run. As a number, it is the first binding id, so no id of an
    /// earlier run is used again.
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
        digest = DigestAuthenticator(
            settings: settings.digest, functions: functions.digest, elsewhere: settings.users.algorithms)
        access = AccessControl(settings, functions.digest)
        network = Network(settings)
        let branchKey = BranchKey(functions.random(), functions.random())
        ledger = PushLedger(
            settings, restoring: stored.bucketEntries, random: functions.random, deviceCode: functions.deviceCode,
            log: log)
        messages = HeldMessages(restoring: stored.messages)
        sip = TransactionLayer(
            branchKey: branchKey, ringLimit: settings.call.ringLimit, tagKey: functions.random())
        calls = Calls(packing: functions.packing, limits: HeldShares.Limits(settings))
        dialogs = Dialogs(run: UInt32(truncatingIfNeeded: functions.random()))
        registrar.answers = dialogs.run
        for provider in stored.pausedProviders {
            ledger.pause(provider, now: Moment(instant: .distantPast, date: date), into: &output.actions)
        }
    }

    package var counters: CounterSet { output.counters }

    package var upstreamWatch: UpstreamWatch { network.upstream }

    /// Refuses new work under overload.
    package var admission: Admission { access.admission }

    /// The actions since the last call, in the order in which they must be performed.
    package func takeActions() -> [ProxyAction] {
        var taken: [ProxyAction] = []
        takeActions(into: &taken)
        return taken
    }

    /// Moves the actions into an array, as ``takeActions()`` does. The array's former content is dropped and its memory
    /// is used again.
    package func takeActions(into taken: inout [ProxyAction]) {
        if !taken.isEmpty { taken.removeAll(keepingCapacity: true) }
        swap(&taken, &output.actions)
    }

    package var nextDeadline: Instant? {
        earlier(
            earlier(earlier(sip.transactions.nextDeadline, output.timers.nextDeadline), network.upstream.nextDeadline),
            earlier(registrar.bindings.nextExpiry, ledger.nextDeadline))
    }

    // MARK: Inside

    func act(_ action: ProxyAction) { output.actions.append(action) }

    @discardableResult
    func lookUp(_ hop: NextHop, for purpose: Lookups.Purpose) -> ResolutionTicket {
        let ticket = network.lookups.begin(for: purpose)
        act(.resolve(hop, ticket))
        return ticket
    }

    func withTransactions(_ body: (inout TransactionTable, inout [TransactionOutput]) -> Void) {
        // Bytes to send become actions now. Everything else that the transactions tell waits for `settle`.
        sip.change(body) { act(.send($0, on: $1)) }
    }
}

/// The engine's own timers. Transactions and pushes have separate timers.
enum EngineTimer: Sendable {
    /// The hold time of the call at that place of ``Calls`` has ended. The end of the call cancels this timer.
    case holdDeadline(place: UInt32)
    /// Refreshed bindings must be written.
    case bookkeepingDue
    /// An ended call that was kept for pushed phones may be removed.
    case endedCallDue
    /// Answered calls may be removed from the journal.
    case journalDue
    /// Callers of an earlier run are not expected any more.
    case awayCallersDue
    case messageDue(UInt64)
    /// The engine looks for contacts that expire soon.
    case refreshWalkDue
    /// A flow may have missed its keep-alive.
    case flowTimersDue
    /// The overload may have ended.
    case reliefDue
    /// A sender may not have answered its challenge in time.
    case refusalsDue
    /// A source of users may not have answered in time.
    case usersDue
    /// The request of the call at that place may have got no response. The ``ForkID`` guards against another call at
    /// that place.
    case silence(place: UInt32, ForkID)
    /// By the record of a phone, the call at that place need not wait for the phone any longer. The id tells whether the
    /// place still has the same call.
    case wakeBound(place: UInt32, ForkID)
}

private func earlier(_ left: Instant?, _ right: Instant?) -> Instant? {
    guard let left, let right else { return left ?? right }
    return min(left, right)
}
