import AccessLimits
import Addressing
import Bytes
import Calling
import ProxyPolicy
import PushDelivery
import Registration
import Routing
import SIPGrammar
import SIPTransactions
import ServiceEvents
import Telemetry
import Timekeeping

/// The log line about a call that has ended or was refused.
struct CallLine {
    var call: RefusedCall
    var source: Endpoint
    var code: CallCode
    var status: UInt16
    /// Why the call ended or was refused, in words.
    var reason: String
    /// The phone that answered the call; `nil` if no phone answered.
    var device: DeviceID?
    /// The number of phones to which the call was offered.
    var count = 0
    var duration: Duration = .zero

    func write(_ message: StaticString, to log: Log, asNotice isNotice: Bool, suppressed: Int = 0) {
        func fields() -> KeyValuePairs<LogKey, LogValue> {
            [
                .aor: .described(call.callee), .caller: .bytes(call.caller), .source: .described(source),
                .callID: .bytes(call.callID), .code: .described(code), .status: .number(Int(status)),
                .reason: .text(reason), .device: device.map { .described($0) } ?? .text("-"), .count: .number(count),
                .duration: .duration(duration), .suppressed: .number(suppressed),
            ]
        }
        if isNotice { log.notice(message, fields()) } else { log.info(message, fields()) }
    }
}

/// Writes one log line about each call that ended or was refused.
extension ProxyEngine {
    /// Writes the log line of a call after its final response, at most once for each call.
    func tellEnd(of call: ProxiedRequest, now: Moment) {
        guard call.userCall != nil || call.outgoing != nil, !call.marks.contains(.told) else { return }
        call.saw(.told)
        reportEnd(of: call, now: now)
        // At the default settings, an answered call gets no log line, so ``tellEnd(of:now:)`` returns early for most
        // calls.
        let isGood = call.fork.isAnswered && call.fork.wasAnswered
        guard !isGood || settings.callLogging == .all || log.isEnabled(.info) else { return }
        let code = code(of: call)
        let isNotice =
            switch settings.callLogging {
            case .all: true
            case .failed: code.isFailure
            case .none: false
            }
        guard log.isEnabled(isNotice ? .notice : .info), let line = line(of: call, code, now: now) else { return }
        guard isNotice, settings.callLogging == .failed else {
            return line.write("call ended", to: log, asNotice: isNotice)
        }
        let caller =
            call.userCall?.caller ?? call.sender.map(Caller.init(user:)) ?? Caller(call.source.remote.address)
        if let suppressed = output.callLines.admit(to: line.call.callee, from: caller, now: now.instant) {
            line.write("call ended", to: log, asNotice: true, suppressed: suppressed)
        } else {
            line.write("call ended", to: log, asNotice: false)
        }
    }

    /// Reports the end of a call to the traces and to the receiver of events, if traces or events are on.
    private func reportEnd(of call: ProxiedRequest, now: Moment) {
        guard output.reportsEnds || output.events.isOn, let userCall = call.userCall else { return }
        // Both times were computed from the arrival of the INVITE.
        let began = userCall.holdUntil + (userCall.receivedAt - userCall.pushDeadline)
        let answered = call.fork.branches.first { $0.end == .succeeded }
        let report = EndedCallReport(
            ref: userCall.ref, callID: userCall.key.callID, aor: userCall.aor, receivedAt: userCall.receivedAt,
            began: began, ended: now.instant, endedAt: now.date, code: code(of: call), status: call.finalStatus,
            device: answered?.addressee, count: call.fork.branches.count { $0.device != nil })
        let format = settings.call.callerIDFormat
        output.events.ended(
            report, from: revive(call).map { CallerIdentity($0.request, format: format).remoteURI },
            into: &output.actions)
        if output.reportsEnds { act(.callEnded(report)) }
    }

    private func line(of call: ProxiedRequest, _ code: CallCode, now: Moment) -> CallLine? {
        guard let incoming = revive(call) else { return nil }
        var about = RefusedCall(incoming.request, to: calleeOfToken(in: incoming.request.uri))
        if let userCall = call.userCall {
            about = RefusedCall(callee: userCall.aor, caller: about.caller, callID: about.callID)
        }
        let began = call.userCall.map { now.date - $0.receivedAt } ?? call.outgoing.map { now.instant - $0.since }
        let answered = call.fork.branches.first { $0.end == .succeeded }
        return CallLine(
            call: about, source: call.source.remote, code: code, status: call.finalStatus,
            reason: "\(code.words)", device: answered?.addressee,
            count: call.fork.branches.count { $0.device != nil }, duration: began ?? .zero)
    }

    /// Writes the log line of a refused INVITE, if no phone has got the INVITE or a push.
    func tellRefused(
        _ call: RefusedCall, from source: Endpoint, _ status: Status, because refusal: Refusal, suppressed: Int
    ) {
        let code = status == .movedTemporarily ? CallCode(.none, .none, .none, .redirected) : .denied
        CallLine(call: call, source: source, code: code, status: status.code, reason: refusal.words)
            .write("call refused", to: log, asNotice: true, suppressed: suppressed)
    }

    // MARK: The letters

    func code(of call: ProxiedRequest) -> CallCode {
        guard call.userCall != nil else { return CallCode(.outgoing, .none, .none, outgoingEnd(of: call)) }
        guard call.hasDevices else { return CallCode(.none, .none, .none, end(of: call)) }
        let marks = call.marks
        let isHeld = marks.contains(.held) || marks.contains(.heldAgain)
        let hold: CallCode.Hold = marks.contains(.heldAgain) ? .again : isHeld ? .held : .atOnce
        return CallCode(hold, push(of: call), wake(marks, isHeld: isHeld), end(of: call))
    }

    private func push(of call: ProxiedRequest) -> CallCode.Push {
        let (branches, marks) = (call.fork.branches, call.marks)
        if branches.contains(where: \.wasWoken) { return .accepted }
        if branches.contains(where: \.wasPushed) { return .sent }
        if marks.contains(.pushFailed) { return .failed }
        if marks.contains(.pushPaused) { return .paused }
        if marks.contains(.pushAsked) { return .queued }
        return marks.contains(.pushLimited) ? .limited : .none
    }

    private func wake(_ marks: CallMarks, isHeld: Bool) -> CallCode.Wake {
        if marks.contains(.registered) { return .registered }
        if marks.contains(.showedLife) { return .showedLife }
        return isHeld ? .nobody : .none
    }

    private func end(of call: ProxiedRequest) -> CallCode.End {
        let fork = call.fork
        if fork.wasForwarded { return .forwarded }
        if fork.wasAnswered { return .answered }
        var (isRefused, isUnanswered) = (false, false)
        for branch in fork.branches {
            switch branch.end {
            case .cancelled(.callerCancelled): return .callerGaveUp
            case .cancelled(.answeredElsewhere): return .answeredElsewhere
            case .cancelled(.endedByOperator): return .endedByOperator
            case .failed: isRefused = true
            case .gaveUp(.requestTimeout): isUnanswered = true
            case .cancelled, .succeeded, .gaveUp, .silent, nil: break
            }
        }
        if fork.foundNobody {
            if call.marks.contains(.redirected) { return .redirected }
            if call.marks.contains(.notDisturbed) { return .notDisturbed }
            if call.marks.contains(.timeOver) { return .timeOver }
            if call.marks.contains(.phonesGone) || !call.hasDevices { return .phonesGone }
            return call.marks.contains(.pushFailed) ? .pushFailed : .unreachable
        }
        return isRefused ? .refused : isUnanswered ? .noAnswer : .unreachable
    }

    private func outgoingEnd(of call: ProxiedRequest) -> CallCode.End {
        switch call.fork.branches.first?.end {
        case .succeeded: .answered
        case .failed: .refused
        case .gaveUp(.requestTimeout), .silent, nil: .noAnswer
        case .gaveUp: .unreachable
        case .cancelled(.answeredElsewhere): .answeredElsewhere
        case .cancelled(.endedByOperator): .endedByOperator
        case .cancelled: .callerGaveUp
        }
    }
}

extension ProxiedRequest {
    /// Whether the call was offered to at least one device; false if the call was only forwarded to another URI.
    var hasDevices: Bool { fork.branches.contains { $0.device != nil } }
}
