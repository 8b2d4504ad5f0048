import PushDelivery

/// Explains one device's part in a call in words, and advises the operator.
package struct DeviceExplanation {
    let record: TimelineReport
    let omission: TimelineRecord.Omission?
    let answer: TimelineRecord.Answer?
    let end: TimelineRecord.End?
    let sign: TimelineRecord.SignOfLife?
    let refusal: Refusal?
    let lastRegistered: Int64?

    /// Prepares the text by which `explain` describes a device's timeline record. The parameter `lastRegistered` is the
    /// time of the device's last REGISTER; `nil` if the device is no longer a contact.
    package init(_ record: TimelineReport, lastRegistered: Int64?) {
        self.record = record
        self.lastRegistered = lastRegistered
        omission = record.omission.flatMap(TimelineRecord.Omission.init(rawValue:))
        answer = record.answer.flatMap(TimelineRecord.Answer.init(rawValue:))
        refusal = record.refusal.flatMap(Refusal.init(rawValue:))
        end = record.end.flatMap(TimelineRecord.End.init(rawValue:))
        sign = record.sign.flatMap(TimelineRecord.SignOfLife.init(rawValue:))
    }

    // MARK: Steps

    /// All steps of the device in order, each with its time in milliseconds since the start of the record.
    package var steps: [(time: Int64, text: String)] {
        var steps: [(time: Int64, text: String)] = [(0, beginning)]
        if let sent = record.sentAfter?.milliseconds { steps.append((sent, "sent to the provider")) }
        if let answer {
            if let answered = record.answeredAfter?.milliseconds {
                steps.append((answered, words(answer)))
            } else {
                steps.append((record.endedAfter?.milliseconds ?? 0, words(answer)))
            }
        }
        if let registered = record.registeredAfter?.milliseconds { steps.append((registered, "the phone registered")) }
        if let sign, let invited = record.invitedAfter?.milliseconds { steps.append((invited, words(sign))) }
        if let invited = record.invitedAfter?.milliseconds {
            steps.append(
                (
                    invited,
                    isOutgoing
                        ? "the daemon sent the INVITE to the upstream" : "the daemon sent the INVITE to the phone"
                ))
        }
        if let rang = record.rangAfter?.milliseconds { steps.append((rang, "ringing began")) }
        if let end, end != .notOffered {
            let words = isOutgoing ? outgoingWords(end) : omission == .noContact ? forwardWords(end) : words(end)
            steps.append((record.endedAfter?.milliseconds ?? 0, words))
        }
        if let received = record.receivedAfter?.milliseconds {
            steps.append((received, "the app reports that the push arrived"))
        }
        if let followed = record.followedAfter?.milliseconds {
            steps.append((followed, "the app reports that the user opened the notification"))
        }
        if let read = record.readAfter?.milliseconds {
            steps.append((read, "the push counts as read from this moment on"))
        }
        steps = steps.enumerated().sorted { ($0.element.time, $0.offset) < ($1.element.time, $1.offset) }
            .map(\.element)
        if let last = steps.last, isUnderWay { steps.append((last.time, "not finished yet")) }
        return steps
    }

    private var isUnderWay: Bool {
        record.delivery == TimelineRecord.Delivery.underWay.rawValue
            || ((record.kind == "call" || isOutgoing) && end == nil)
    }

    var isOutgoing: Bool { record.kind == "outgoing" }

    private var beginning: String {
        if isOutgoing { return "the call came from the phone at \(record.source)" }
        let device = record.deviceName.map { "device \($0)" } ?? "the token"
        if let refusal { return words(refusal) }
        if record.kind == "notification" { return notificationBeginning(device) }
        if record.kind == "contact" { return "the contact of \(device) ended" }
        return switch omission {
        case nil where record.kind == "call": "the call came; push to \(device) by \(record.app)"
        case nil: "\(Words.count(record.calls, "missed call")) to report; push to \(device) by \(record.app)"
        case .unknownUser: "the call came; no user is called \(record.aor), so the caller got \(status)"
        case .noContact where end != .notOffered:
            "the call came; \(record.aor) had no device, so call.no-wake forwarded the call"
        case .noContact: "the call came; \(record.aor) had no device, so the caller got \(status)"
        case .tooManyCalls: "the call came; too many calls were waiting, so the caller got \(status)"
        case .ordinaryContact: "the call came; \(device) is an ordinary contact, so it gets the INVITE without a push"
        case .providerOff:
            "the call came; \(record.app) is switched off, so \(device) gets the INVITE without a push"
        case .providerPaused:
            "the call came; \(record.app) is paused, so \(device) got no push, and the call waits for the device"
        case .justRegistered: "the call came; \(device) had just registered, so it gets the INVITE without a push"
        case .deviceLimit:
            "the call came; \(device) had too many pushes, so no push was sent, and the call waits for the device"
        case .callerLimit:
            "the call came; the caller woke too many phones, so \(device) got no push, and the call waits"
        case .notCarried where record.kind == TimelineRecord.Kind.missedCalls.rawValue:
            "\(Words.count(record.calls, "missed call")) to report; the token of \(device) cannot carry a list of missed calls"
        case .notCarried: "the call came; the token of \(device) cannot carry this kind of push"
        case .delayed: "the call came; \(device) waits \(record.reason)"
        case .doNotDisturb:
            "the call came; do not disturb is set for \(record.aor) (\(record.reason)), so \(device) does not ring, and "
                + (record.endStatus == nil ? "call.no-wake forwarded the call" : "the caller got \(status)")
        }
    }

    private func notificationBeginning(_ device: String) -> String {
        let orderer = "ordered by \(record.peer.isEmpty ? "an application server" : record.peer)"
        return switch omission {
        case nil:
            "\(orderer); push to \(device)" + (record.app.isEmpty ? "" : " by \(record.app)")
        case .ordinaryContact: "\(orderer); \(device) has no push token that the daemon can use"
        case .notCarried: "\(orderer); the token of \(device) cannot carry this kind of push"
        case .deviceLimit: "\(orderer); \(device) had too many pushes, so no push was sent"
        case .providerPaused: "\(orderer); \(record.app) is paused, so \(device) got no push"
        case .unknownUser, .noContact, .tooManyCalls, .providerOff, .justRegistered, .callerLimit, .delayed,
            .doNotDisturb:
            "\(orderer); no push was sent to \(device)"
        }
    }

    var status: String { record.endStatus.map { "\($0)" } ?? "no answer" }

    private func words(_ answer: TimelineRecord.Answer) -> String {
        let isDone = record.delivery != TimelineRecord.Delivery.underWay.rawValue
        let reason = record.reason.isEmpty ? "" : ": \(record.reason)"
        switch answer {
        case .accepted:
            return "the provider accepted the push" + (record.providerID.isEmpty ? "" : " (\(record.providerID))")
                + atTry
        case .acceptedWithNewToken: return "the provider accepted the push, and named a new token for the phone" + atTry
        case .tokenDead:
            return "the provider says the token is dead"
                + (record.deadSince.map { " since \(Words.date($0.milliseconds))" } ?? "")
        case .failed where record.tries == 0:
            return record.reason.isEmpty
                ? "not sent: the provider's credential was missing, or too many pushes were queued before it"
                : "not sent: the provider's credential is missing\(reason)"
        case .failed where record.status == nil: return "the provider was not reached\(reason)" + inTries
        case .failed: return "the provider had trouble\(reason)" + inTries
        case .credentialsRefused: return "the provider does not accept our credentials\(reason)"
        case .foreignToken: return "the provider says that the token belongs to another app\(reason)"
        case .noConnection: return "the daemon cannot connect to the provider\(reason)"
        case .payloadRefused: return "the provider does not accept the message\(reason)"
        case .noSuitableToken: return "the phone gave no token for this kind of push"
        case .queueFull: return isDone ? "not sent: too many pushes wait" : "too many pushes wait"
        case .noApp: return "not sent: the token belongs to no app in the settings"
        case .paused: return "not sent: the provider is paused"
        }
    }

    private var inTries: String { record.tries > 1 ? ", in \(record.tries) tries" : "" }

    private var atTry: String {
        guard record.tries > 1 else { return "" }
        return " at try \(record.tries)" + (record.reason.isEmpty ? "" : "; the try before failed: \(record.reason)")
    }

    private func words(_ sign: TimelineRecord.SignOfLife) -> String {
        switch sign {
        case .keepAlive: "the phone was awake: a keep-alive came on the flow that it registered on"
        case .request: "the phone was awake: a request came on the flow that it registered on"
        case .response: "the phone was awake: a response came on the flow that it registered on"
        }
    }

    private func words(_ end: TimelineRecord.End) -> String {
        switch end {
        case .answered: "answered"
        case .answeredElsewhere: "answered by another phone"
        case .declinedElsewhere: "another phone declined for all"
        case .refused: "the phone refused with \(status)"
        case .noAnswer: "the phone did not answer the INVITE"
        case .unreachable: "the INVITE could not be sent to the phone"
        case .callerGaveUp: "the caller gave up"
        case .endedByOperator: "an operator ended the call"
        case .timeOver: "no phone came in time, so the call was given up"
        case .boundReached:
            "the phone did not register in the time of its earlier wakes, so the call no longer waits for the phone"
        case .notWaited: "the last ten accepted pushes did not wake the phone, so the call does not wait for the phone"
        case .forwarded: "no phone came in time, so the call was forwarded"
        case .signedOut: "the phone signed out, or its contact was replaced"
        case .tokenDead: "the contact was removed"
        case .providerOff: "the provider was switched off"
        case .pushFailed: "the push failed for good, so the call no longer waits for this phone"
        case .notOffered: "the caller got \(status)"
        case .turnCame: "the turn of the device has come"
        case .turnOver: "other devices began to ring, so the daemon ended the call on this device"
        case .stopped: "the daemon was stopped"
        case .restarted:
            "the daemon had stopped without a shutdown, which ended the call"
        }
    }

    /// Describes in words how a call from a phone ended.
    private func outgoingWords(_ end: TimelineRecord.End) -> String {
        switch end {
        case .refused: "the upstream refused with \(status)"
        case .noAnswer: "the upstream gave no answer, so the caller got 408"
        case .unreachable: "the upstream does not answer or cannot be reached, so the caller got an error"
        case .answered, .answeredElsewhere, .declinedElsewhere, .callerGaveUp, .endedByOperator, .timeOver, .signedOut,
            .tokenDead, .providerOff, .pushFailed, .notOffered, .stopped, .restarted, .boundReached, .notWaited,
            .forwarded, .turnCame, .turnOver:
            words(end)
        }
    }

    /// Describes in words how the forwarding of a call ended, for a user without a device.
    private func forwardWords(_ end: TimelineRecord.End) -> String {
        switch end {
        case .forwarded: "the forward's destination rang or answered"
        case .refused: "the forward's destination refused with \(status), so the caller got the status of call.no-wake"
        case .noAnswer: "the forward's destination gave no answer, so the caller got the status of call.no-wake"
        case .unreachable:
            "the forward could not be sent, or its destination was silent, so the caller got the status of call.no-wake"
        case .answered, .answeredElsewhere, .declinedElsewhere, .callerGaveUp, .endedByOperator, .timeOver, .signedOut,
            .tokenDead, .providerOff, .pushFailed, .notOffered, .stopped, .restarted, .boundReached, .notWaited,
            .turnCame, .turnOver:
            words(end)
        }
    }
}
