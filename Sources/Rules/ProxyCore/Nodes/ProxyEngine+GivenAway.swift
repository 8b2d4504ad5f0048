import Addressing
import Bytes
import Calling
import LocationService
import ProxyPolicy
import PushDelivery
import PushPlanning
import Registration
import Routing
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping
import Waking

/// Gives away calls that other nodes have taken over, because this node gave no sign of life.
extension ProxyEngine {
    /// Refuses an INVITE that may have waited while this node stood still. Its caller may have given up, so no phone may
    /// ring for it. A caller that still waits tries another node after a 503 (RFC 3263 section 4.3). Another node that
    /// gets 430 pushes the phone.
    ///
    /// - Returns: whether the INVITE was refused.
    func isRefusedAsLate(_ incoming: IncomingRequest, now: Moment) -> Bool {
        guard network.held.isBehind, incoming.request.method == .invite, incoming.request.to.tag == nil else {
            return false
        }
        if network.flows.isOfNode(incoming.flow) {
            refuse(incoming, .flowFailed, now: now)
        } else {
            refuse(
                incoming, .serviceUnavailable, because: .stoodStill, fields: [Self.retryAfter(seconds: 1)], now: now)
        }
        return true
    }

    /// Absorbs a retransmission of an INVITE whose call another node continues.
    ///
    /// - Returns: whether another node continues the call.
    func isContinuedElsewhere(_ incoming: IncomingRequest) -> Bool {
        guard incoming.request.method == .invite, network.held.isGivenAway(TransactionKey(of: incoming.request)) else {
            return false
        }
        if let server = incoming.server { withTransactions { $0.abandon(server, into: &$1) } }
        return true
    }

    /// Passes a CANCEL to the other nodes, if one of them continues the call. The node that has the call recognises the
    /// CANCEL by the caller's Via.
    ///
    /// - Returns: whether another node continues the call.
    func passedOn(_ cancel: IncomingRequest, now: Moment) -> Bool {
        guard let caller = network.held.callerGivenAway(TransactionKey(inviteOf: cancel.request)),
            cancel.flow.remote.address == caller.address || caller.isTrusted && isTrusted(cancel, for: caller.domain),
            let nodes = network.flows.nodes
        else { return false }
        refuse(cancel, .ok, now: now)
        for flow in nodes.flows { act(.send(cancel.request.frame.bytes.array, on: flow)) }
        return true
    }

    /// Ends the calls that other nodes have taken over, without a response to the callers: the other nodes answer.
    ///
    /// A call with a ringing phone stays here. So does the call of a caller on a connection, because no other node can
    /// answer on the connection.
    func giveAway(_ keys: Set<HeldCallKey>, now: Moment) {
        func isTaken(
            _ aor: AddressOfRecord, _ callID: ByteString, _ flow: Flow, phoneOf sender: AddressOfRecord? = nil
        ) -> Bool {
            !flow.isConnection && keys.contains(HeldCallKey(aor: aor, callID: callID, phoneOf: sender))
        }
        let unread = registrar.reads.withdraw { incoming, subjects in
            subjects.contains { subject in
                guard case .user(let aor) = subject else { return false }
                return isTaken(aor, incoming.request.callID, incoming.flow)
            }
        }
        for incoming in unread { gaveAway(incoming, of: AddressOfRecord(incoming.request.to.uri)?.host, now: now) }
        let calls = calls.offered { key, call in
            call.fork.onlyWaits
                && isTaken(key.aor, key.callID, call.source, phoneOf: call.isTrusted ? nil : call.sender)
        }
        for call in calls { giveAway(call, now: now) }
        endTaken(keys, now: now)
    }

    /// Ends the calls of phones over connections. The other node has ended these calls, because it could not know that the
    /// connections live.
    private func endTaken(_ keys: Set<HeldCallKey>, now: Moment) {
        let taken = calls.offered { key, call in
            guard call.source.isConnection, !call.isTrusted, let sender = call.sender else { return false }
            return keys.contains(HeldCallKey(aor: key.aor, callID: key.callID, phoneOf: sender))
        }
        for call in taken {
            log.notice(
                "another node has ended the call of a phone here, because this node gave no sign of life",
                [
                    .aor: .text(call.userCall?.aor.description ?? ""),
                    .callID: .bytes(call.userCall?.key.callID ?? .empty),
                ])
            call.cancelled(for: [])
            update(call, now: now) { $0.cancelReceived(answeredElsewhere: false) }
        }
    }

    private func giveAway(_ call: ProxiedRequest, now: Moment) {
        guard let server = call.server, let incoming = revive(call) else { return }
        for client in call.fork.givenAway() {
            withTransactions { $0.cancel(client, reasons: [], now: now.instant, into: &$1) }
        }
        for index in call.fork.branches.indices {
            ledger.drop(index, of: call, now: now, into: &output.actions)
            ledger.ended(index, of: call, .unreachable, now: now, into: &output.actions)
            let branch = call.fork.branches[index]
            for case let device? in [branch.device, branch.contact] { wakes.noLongerWaits(call, for: device) }
        }
        output.timers.cancel(call.stopsWaiting())
        journalOver(server)
        calls.finish(call)
        gaveAway(incoming.matched(server), of: call.userCall?.aor.host, now: now)
    }

    private func gaveAway(_ invite: IncomingRequest, of domain: ByteString?, now: Moment) {
        output.counters.count(.callGivenAway)
        network.held.gaveAway(
            TransactionKey(of: invite.request),
            of: HeldCalls.Caller(address: invite.flow.remote.address, isTrusted: invite.isTrusted, domain: domain),
            until: now.instant + settings.call.ringTimeout, now: now.instant)
        if let server = invite.server { withTransactions { $0.abandon(server, into: &$1) } }
    }
}
