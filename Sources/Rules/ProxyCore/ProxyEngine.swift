package import AccessLimits
import Addressing
import Bytes
import Calling
import Collections
package import LocationService
import Messaging
package import ProxyPolicy
import PushDelivery
package import PushPlanning
import Registration
package import Routing
package import SIPDialogs
import SIPGrammar
import SIPTransactions
import ServiceEvents
package import Telemetry
package import Timekeeping
import Waking

/// The rules of the SIP proxy: the engine decides about registrations, routes, forks, waiting calls, responses and
/// pushes.
///
/// The engine does no input or output: it uses no socket, clock or disk. The engine's shell does all input and output,
/// and reports events through methods with names in the past tense. After each event, the shell calls ``takeActions()``
/// and performs the returned actions in order. Only one thread uses the engine.
///
/// The state is in the parts of ``ProxyEngine``: ``registrar``, ``calls``, transactions (``sip``), work that waits for
/// devices (``wakes``) and pushes (``ledger``). Only code outside the engine calls the methods in the file
/// `ProxyEngine+Events`. Each method in `ProxyEngine+Events` passes one kind of event to one extension of the engine,
/// and then handles the results. The file `ProxyEngine+Devices` tells the engine's other extensions that a device has
/// registered or was removed.
package final class ProxyEngine {
    package internal(set) var settings: ProxySettings
    package let identity: LocalIdentity
    let functions: ProxyFunctions

    package internal(set) var registrar: Registrar
    var access: AccessControl
    var network: Network
    var sip: TransactionLayer

    var calls: Calls
    /// The users whom the daemon keeps registered at a PBX.
    package internal(set) var upstreamUsers: UpstreamUsers
    /// The calls, messages and lists of missed calls that wait for devices to register.
    var wakes = WakeDesk()
    /// The MESSAGE and similar requests that wait for phones.
    var messages: HeldMessages
    package internal(set) var ledger: PushLedger
    package internal(set) var dialogs: Dialogs

    var output = EngineOutput()

    /// Creates an engine that starts at the time `date`; binding ids are made from `date`, so that no id of an earlier
    /// run is used again.
    package init(
        settings: ProxySettings, identity: LocalIdentity, functions: ProxyFunctions,
        restoring stored: StoredState = StoredState(), startedAt date: UnixTime
    ) {
        self.settings = settings
        self.identity = identity
        self.functions = functions
        registrar = Registrar(
            settings: settings.registrar, users: stored.users,
            enabled: settings.configuredProviders.subtracting(stored.disabledProviders), startedAt: date,
            run: settings.node?.run)
        access = AccessControl(settings, functions.digest)
        network = Network(settings, functions)
        upstreamUsers = UpstreamUsers(settings, functions, ceiling: stored.registerCeiling)
        let branchKey = BranchKey(functions.random(), functions.random())
        ledger = PushLedger(
            settings, restoring: stored.bucketEntries, random: functions.random, deviceCode: functions.deviceCode,
            log: functions.log)
        messages = HeldMessages(
            restoring: stored.messages, idsAfter: settings.node.map { UInt64($0.run) << OwnNode.runShift } ?? 0)
        sip = TransactionLayer(
            branchKey: branchKey, ringLimit: settings.call.ringLimit, tagKey: functions.random())
        calls = Calls(
            packing: functions.packing, limits: HeldShares.Limits(settings), secret: settings.node?.secret)
        if !settings.tenants.all.isEmpty {
            registrar.tenantsChanged(settings.tenants, apps: settings.dispatch.directory)
        }
        dialogs = Dialogs(run: UInt32(truncatingIfNeeded: functions.random()))
        registrar.numbersAnswers(from: dialogs.run)
        for row in stored.userRules { calls.rules.set(row.rules, of: row.aor, zone: functions.zone) }
        for provider in stored.pausedProviders {
            ledger.pause(provider, now: Moment(instant: .distantPast, date: date), into: &output.actions)
        }
    }

    package var counters: CounterSet { output.counters }

    var log: Log { functions.log }

    /// Switches the reports about ended calls on or off; traces use these reports.
    package func reportsEnds(_ isOn: Bool) { output.reportsEnds = isOn }

    /// Switches the reports of events for the operator's receiver on or off.
    package func reportsEvents(_ isOn: Bool) {
        output.events.isOn = isOn
        ledger.dispatcher.reportsAppChanges(isOn)
    }

    package var upstreamState: UpstreamState { _read { yield network.upstream } }

    /// The part of the engine that refuses requests while the daemon is overloaded.
    package var admission: Admission { access.admission }

    /// Removes and returns all pending actions, in the order in which the shell must perform them.
    package func takeActions() -> [ProxyAction] {
        var taken: [ProxyAction] = []
        takeActions(into: &taken)
        return taken
    }

    /// Moves all pending actions into the array `taken`. The old content of the array is removed, but its memory is
    /// reused.
    package func takeActions(into taken: inout [ProxyAction]) {
        if !taken.isEmpty { taken.removeAll(keepingCapacity: true) }
        swap(&taken, &output.actions)
        if network.flows.haveNodes, let nodes = network.flows.nodes { share(&taken, through: nodes) }
    }

    /// Writes this node into the Path of all contacts that go to the store of several nodes. If missed calls change, the
    /// store's answers to earlier questions about the user no longer count.
    private func share(_ actions: inout [ProxyAction], through nodes: Nodes) {
        func named(_ change: EngineChange) -> EngineChange {
            guard case .binding(.upsert(let row)) = change else { return change }
            return .binding(.upsert(nodes.written(row)))
        }
        for index in actions.indices {
            switch actions[index] {
            case .commit(let changes, let ticket): actions[index] = .commit(changes.map(named), ticket)
            case .record(let changes):
                actions[index] = .record(changes.map(named))
                for case .bucket(let change) in changes { registrar.changeOrdered(of: change.aor) }
            case .refresh(let rows): actions[index] = .refresh(rows.map(nodes.written))
            default: break
            }
        }
    }

    package var nextDeadline: Instant? {
        earlier(
            earlier(earlier(sip.transactions.nextDeadline, output.timers.nextDeadline), network.upstream.nextDeadline),
            earlier(
                earlier(registrar.bindings.nextExpiry, ledger.nextDeadline),
                upstreamUsers.pbxs.isEmpty ? nil : upstreamUsers.nextDeadline))
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
        // A message to send becomes an action immediately. All other outputs of the transactions wait for `settle`.
        sip.change(body) { act(.send($0, on: $1)) }
    }
}

/// The engine's timers; transactions and pushes have timers of their own.
enum EngineTimer: Sendable {
    /// The call in the given slot of ``Calls`` stops waiting for phones; the end of the call cancels the timer.
    case holdDeadline(place: UInt32)
    /// The engine writes refreshed bindings to the store.
    case bookkeepingDue
    /// The engine removes ended calls. It kept them for phones that could still register after a push.
    case endedCallDue
    /// The engine removes answered calls from the call journal.
    case journalDue
    /// The engine stops waiting for callers from before the restart to connect again.
    case awayCallersDue
    case messageDue(UInt64)
    /// The engine looks for contacts that expire soon, and sends refresh pushes to their phones.
    case refreshScanDue
    /// The engine looks for flows whose phones have not sent a keep-alive in time.
    case flowTimersDue
    /// The engine checks whether the overload has ended.
    case reliefDue
    /// The engine reports a call as refused if its sender has not answered a challenge in time.
    case refusalsDue
    /// The engine checks whether the sources of users have answered in time.
    case usersDue
    /// The keys of the issuers of bearer tokens must be read again.
    case keysDue
    /// The engine asks the store about the users for whose phones something waits.
    case nodesDue
    /// The engine searches the store for contacts whose node has ended.
    case dutiesDue
    /// A CANCEL waits no longer for the call of an ended node.
    case cancelsDue
    /// The engine checks whether the forwarded request of a call has got a response. The ``ForkID`` shows whether the
    /// slot in ``Calls`` now belongs to a newer call.
    case silence(place: UInt32, ForkID)
    /// The next devices of a call must begin to ring. The ``ForkID`` shows whether the slot in ``Calls`` has been given
    /// to a newer call.
    case turnDue(place: UInt32, ForkID)
    /// The call stops waiting for a phone, because the phone's earlier wakes took less time. The ``ForkID`` shows
    /// whether the slot in ``Calls`` has been given to a newer call.
    case wakeBound(place: UInt32, ForkID)
}

private func earlier(_ left: Instant?, _ right: Instant?) -> Instant? {
    guard let left, let right else { return left ?? right }
    return min(left, right)
}
