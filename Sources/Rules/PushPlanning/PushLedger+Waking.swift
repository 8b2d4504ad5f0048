import AccessLimits
package import Bytes
package import Calling
package import PushDelivery
package import Registration
package import Routing
import Telemetry
package import Timekeeping

/// Wakes phones for calls by pushes, within the limits on pushes.
extension PushLedger {
    /// Sends the push about a call for a branch that waits for its phone (R11). The parameter `old` is the code of the
    /// push, if the push was already ordered before the restart.
    package mutating func wake(
        _ target: ForkTarget, _ token: PushToken, for branch: Int, of call: ProxiedRequest, _ userCall: UserCall,
        _ caller: CallerIdentity, again old: PushCode? = nil, nonce: ByteString? = nil, now: Moment,
        into actions: inout some PushOrders
    ) {
        guard !isPaused(token.provider) else {
            call.saw(.pushPaused)
            return began(
                branch, of: call, userCall, target.id, .providerPaused, app: token.provider.rawValue, now: now)
        }
        guard old != nil || limits.admits(target.id, for: userCall.caller, now: now.instant) else {
            let isOwn = !limits.device.isUsedUp(target.id, now: now.instant)
            if let suppressed = lines.admit(userCall.caller, now: now.instant) {
                log.warning(
                    isOwn
                        ? "a caller has reached its limit of pushes to a phone, so the daemon does not wake the phone for this call"
                        : "a phone has reached its limit of pushes, so the daemon does not wake the phone for this call",
                    [
                        .aor: .described(userCall.aor), .device: .described(target.id),
                        .caller: .bytes(caller.remoteURI), .callID: .bytes(userCall.key.callID),
                        .suppressed: .number(suppressed),
                    ])
            }
            call.saw(.pushLimited)
            return began(
                branch, of: call, userCall, target.id, isOwn ? .callerLimit : .deviceLimit,
                app: token.provider.rawValue,
                now: now)
        }
        let code = old ?? newCode()
        began(
            branch, of: call, userCall, target.id, nil, code, app: token.provider.rawValue,
            since: old == nil ? nil : userCall.receivedAt, now: now)
        call.saw(.pushAsked)
        let badge = unread.asked(code, .call(userCall.ref), by: target.id, at: now.date)
        send(
            AskedPush(
                .call(call, branch: branch), code, device: target.id, aor: userCall.aor,
                record: call.fork.branches[branch].record),
            PushRequest(
                code: code, device: target.id, token: token,
                message: .incomingCall(IncomingCall(userCall, from: caller)), badge: badge,
                deadline: max(userCall.pushDeadline, now.date + Self.shortestCallPush), nonce: nonce),
            now: now, into: &actions)
    }

    /// The minimum lifetime of a push about a call, if the phone's connection was lost while the phone rang.
    private static var shortestCallPush: Duration { .seconds(5) }
}

extension IncomingCall {
    /// Describes a call for the push about the call.
    package init(_ userCall: UserCall, from caller: CallerIdentity) {
        self.init(
            callRef: userCall.ref, callerURI: caller.number, displayName: caller.displayName,
            isAnonymous: caller.isAnonymous, receivedAt: userCall.receivedAt, callID: userCall.key.callID)
    }
}
