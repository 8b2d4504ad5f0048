import AccessLimits
package import Addressing
import Bytes
package import Calling
import LocationService
package import Messaging
package import ProxyPolicy
import PushDelivery
import PushPlanning
package import Registration
package import Routing
import SIPGrammar
import Telemetry
package import Timekeeping
import Waking

/// The methods through which the shell reports events of the cluster to the engine: answers of the shared store, and
/// news about other nodes.
extension ProxyEngine {
    /// Handles the answer of the store to ``ProxyAction/readUsers(_:waiting:)``; `nil` means that the store did not
    /// answer.
    package func usersRead(_ ticket: ReadTicket, _ answer: StoredUsers?, now: Moment) {
        switch registrar.reads.answered(ticket) {
        case .nothing: break
        case .asksAgain(let question): act(.readUsers(question, waiting: nil))
        case .proceeds(let work, let subjects):
            if answer == nil {
                network.waiting.storeFailed(now: now.instant)
                isNotStored(work, subjects)
            }
            if let answer {
                accountsRead(answer.accounts, askedFor: subjects, now: now)
                let isAdoption = if case .orphans = work { true } else { false }
                for user in answer.users { restore(user, expiring: isAdoption ? orphans(of: user) : [], now: now) }
            }
            if case .refreshes(let contacts) = work { refreshesRead(contacts, answer, now: now) }
            goOn(with: work, answer == nil ? .stale : .fresh, now: now)
        }
        settle(now: now)
    }

    /// Adopts the accounts that the store has returned. The registrations of removed users at PBXs end.
    package func accountsRead(_ accounts: [DigestUser], askedFor subjects: [UserSubject], now: Moment) {
        for removed in registrar.adopt(accounts, askedFor: subjects) { upstreamUserRemoved(removed, now: now) }
    }

    /// Notes that the store has no copy of a request's INVITE, because it did not answer.
    private func isNotStored(_ work: UserReads.Work, _ subjects: [UserSubject]) {
        guard case .request(let incoming) = work else { return }
        for case .user(let aor) in subjects {
            network.held.ended(HeldCallKey(aor: aor, callID: incoming.request.callID))
        }
    }

    private func goOn(with work: UserReads.Work, _ reading: IncomingRequest.Reading, now: Moment) {
        if case .request = work { output.counters.count(reading == .stale ? .nodeReadStale : .nodeReadFresh) }
        switch work {
        case .request(let incoming) where reading == .stale && needsAnswer(incoming, now: now):
            refuse(
                incoming, .serviceUnavailable, because: .usersAway, fields: [Self.retryAfter(seconds: 10)], now: now)
            // A woken phone registers on its flow. Without the store, the REGISTER shows no more than a keep-alive.
            if incoming.request.method == .register { noteLife(on: incoming.flow, by: .request, now: now) }
        case .request(let incoming):
            dispatch(incoming.read(reading), now: now)
            hasDispatched(incoming, now: now)
        case .acknowledgement(let incoming): ackReceived(incoming, now: now)
        case .change(let work, let aor):
            if reading == .fresh { begin(work, for: aor, now: now) } else { refuse(work, retryAfter: 10, now: now) }
        case .takenOver(let ticket): continueCall(ticket, now: now)
        case .waiting, .refreshes, .orphans: break
        case .upstreamUser(let aor): if reading == .fresh { upstreamUserRead(aor, now: now) }
        case .upstreamPassword(let aor): upstreamPasswordRead(aor, isFresh: reading == .fresh, now: now)
        case .upstreamCandidates(let signs): if reading == .fresh { upstreamCandidatesRead(signs, now: now) }
        case .look(let ticket): act(.userLookedUp(ticket, isFresh: reading == .fresh))
        }
    }

    /// Adopts the rows of the store about a user, and continues the calls that wait for phones at other nodes. At the
    /// start, the engine adopts the users of the earlier run's calls before it restores the calls. The expired bindings
    /// `expiring` are removed next.
    package func restore(_ user: StoredUser, expiring: Set<DeviceID> = [], now: Moment) {
        guard let nodes = network.flows.nodes else { return }
        ledger.buckets.adopt(user.bucketEntries, of: user.aor, now: now.date)
        if let rules = user.rules?.rules {
            calls.rules.set(rules, of: user.aor, zone: functions.zone)
        } else {
            _ = calls.rules.remove(user.aor)
        }
        guard !registrar.isChanging(user.aor) else { return }
        let adoption = registrar.adopt(user.bindings.map(nodes.read), of: user.aor, expiring: expiring, now: now)
        for ended in adoption.removed { deviceRemoved(ended.id, of: ended.aor, nil, now: now) }
        for binding in adoption.returned {
            bindingReturned(binding, of: user.aor, isPush: nil, isElsewhere: true, now: now)
        }
    }

    /// Handles a change of the living nodes: their names, addresses and runs.
    package func nodesChanged(_ peers: [PeerNode], now: Moment) {
        let lost = wakes.waitedFor.filter { isAtLostNode($0, now: now) }
        if network.flows.nodes?.changed(peers, now: now.instant) == true { network.duties.runEnded(now: now.instant) }
        // A phone can register at a new node before this node knows of the new node.
        for device in lost where !isAtLostNode(device, now: now) {
            if let aor = registrar.bindings.aor(of: device) {
                bindingReturned(device, of: aor, isPush: nil, isElsewhere: true, now: now)
            }
        }
        let lostEarlier = Set(lost)
        for device in wakes.waitedFor where !lostEarlier.contains(device) && isAtLostNode(device, now: now) {
            wakeAgain(device, now: now)
        }
        armDuties()
        armNodes(now: now)
        settle(now: now)
    }

    private func isAtLostNode(_ device: DeviceID, now: Moment) -> Bool {
        registrar.bindings.forkTarget(device, now: now.instant).map { network.flows.hasLostNode($0.path) } ?? false
    }

    /// Handles the news that this node has, or no longer has, the duties that one node does for all nodes.
    package func dutiesChanged(isHeld: Bool, now: Moment) {
        guard isHeld != network.duties.isHeld else { return }
        if isHeld { network.duties.gained(now: now.instant) } else { network.duties.lost() }
        upstreamDutyChanged(isHeld: isHeld, now: now)
        log.notice(
            isHeld ? "this node has the duties of the cluster" : "this node has lost the duties of the cluster", [:])
        armDuties()
        settle(now: now)
    }

    /// Handles one page of a search through all contacts; `nil` means that the store did not answer.
    package func contactsFound(_ question: ContactSearch.Question, _ page: ContactPage?, now: Moment) {
        switch question.wanted {
        case .expiring: found(page, to: question, now: now)
        case .withPush: upstreamUsersFound(page, to: question, now: now)
        }
        settle(now: now)
    }

    /// Handles the end of a standstill of this process. Until ``caughtUp(now:)``, no phone rings for a new INVITE.
    package func stoodStill() { network.held.isBehind = network.flows.haveNodes }

    /// Goes on after a standstill: all news about calls that other nodes have taken over has come.
    package func caughtUp(now: Moment) {
        network.held.isBehind = false
        settle(now: now)
    }

    /// Handles the news that another node has taken over what waited here. The store still has the calls `remaining`
    /// for this node.
    package func takenOver(remaining: Set<HeldCallKey>, now: Moment) {
        giveAway(network.held.takenOver(remaining: remaining), now: now)
        settle(now: now)
    }

    /// Handles the calls of a node that has ended. If this node has the address of the ended node, it also gets the
    /// callers' retransmissions and CANCELs.
    package func invitesTakenOver(_ invites: [HeldInvite], now: Moment) {
        for invite in invites { takeOver(invite, now: now) }
        settle(now: now)
    }

    /// Goes on with stored messages of this node's earlier runs and of nodes that have ended; `users` has the recipients.
    package func messagesTakenOver(_ rows: [StoredMessage], for users: StoredUsers, now: Moment) {
        for user in users.users { restore(user, now: now) }
        output.counters.count(.messageTakenOver, by: UInt64(rows.count))
        restore(rows.sorted { $0.id < $1.id }, now: now)
        for aor in Set(rows.map(\.aor)) where !messages.queue(of: aor).isEmpty { announce(aor, now: now) }
        settle(now: now)
    }

    /// Handles the names of the nodes at which something waits for phones of a user, after a phone has registered here.
    package func nodesFound(waitingFor aor: AddressOfRecord, _ names: [String], now: Moment) {
        nodesWait(names, forPhonesOf: aor, now: now)
        settle(now: now)
    }
}
