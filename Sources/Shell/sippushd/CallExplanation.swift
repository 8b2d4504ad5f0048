import Control
import PushDelivery

/// Explains one call in words: the steps of all its devices in the order of their times, and then advice for each
/// failure.
struct CallExplanation {
    private let records: [TimelineReport]
    private let report: ExplainReport

    /// Prepares the explanation of the call that these records describe. The report must have at least one record.
    init(_ records: [TimelineReport], of report: ExplainReport) {
        self.records = records
        self.report = report
    }

    var lines: [String] {
        guard let first = records.first else { return [] }
        let start = records.map(\.requestedAt.milliseconds).min() ?? first.requestedAt.milliseconds
        var steps: [(time: Int64, text: String)] = []
        for record in records {
            // The text of the first step names the device, so the first step needs no label.
            let label = records.count > 1 ? "device \(record.deviceName ?? ""): " : ""
            steps += explanation(of: record).steps.enumerated().map { index, step in
                (record.requestedAt.milliseconds - start + step.time, (index == 0 ? "" : label) + step.text)
            }
        }
        // If two steps have equal times, they keep their order.
        let sorted = steps.enumerated().sorted { ($0.element.time, $0.offset) < ($1.element.time, $1.offset) }
        let lines = sorted.map { "  " + "\($0.element.time) ms".padded(to: 9) + $0.element.text }
        var advice: [String] = []
        for record in records {
            if let sentence = explanation(of: record).advice, !advice.contains(sentence) { advice.append(sentence) }
        }
        return [heading(first, start)] + lines + advice.map { "  => " + $0 }
    }

    private func explanation(of record: TimelineReport) -> DeviceExplanation {
        let contact = report.contacts.first { $0.device == record.device }
        return DeviceExplanation(record, lastRegistered: contact?.registeredAt.milliseconds)
    }

    private func heading(_ first: TimelineReport, _ start: Int64) -> String {
        if first.kind == "notification" {
            // The operator tested a token that belongs to no known device.
            if first.aor == "@" { return "Test push \(first.code ?? "") to a token, \(Words.date(start))" }
            return "Notification \(first.code ?? "") for \(first.aor), \(Words.date(start))"
        }
        if first.refusal != nil, let source = first.source.isEmpty ? nil : first.source {
            let what = first.kind == "register" ? "REGISTER" : "Call \(first.callID)"
            return "\(what) for \(first.aor) from \(source), \(Words.date(start))"
        }
        if first.kind == "outgoing" {
            return "Call \(first.callID) of \(first.aor) to \(first.peer), \(Words.date(start))"
        }
        if first.kind == "contact" { return "Contact of \(first.aor), \(Words.date(start))" }
        guard first.kind == "call" else { return "Missed calls for \(first.aor), \(Words.date(start))" }
        let user = report.isUser ? "" : " for \(first.aor)"
        return "Call \(first.callID)\(user), \(Words.date(start))"
    }
}

/// Explains in words what happened to one device in a call, and advises the operator.
struct DeviceExplanation {
    let record: TimelineReport
    private let omission: TimelineRecord.Omission?
    private let answer: TimelineRecord.Answer?
    private let end: TimelineRecord.End?
    private let sign: TimelineRecord.SignOfLife?
    private let refusal: Refusal?
    private let lastRegistered: Int64?

    /// Prepares the explanation. `lastRegistered` is the time of the device's last registration, or `nil` if the device
    /// is no longer a contact.
    init(_ record: TimelineReport, lastRegistered: Int64?) {
        self.record = record
        self.lastRegistered = lastRegistered
        omission = record.omission.flatMap(TimelineRecord.Omission.init(rawValue:))
        answer = record.answer.flatMap(TimelineRecord.Answer.init(rawValue:))
        refusal = record.refusal.flatMap(Refusal.init(rawValue:))
        end = record.end.flatMap(TimelineRecord.End.init(rawValue:))
        sign = record.sign.flatMap(TimelineRecord.SignOfLife.init(rawValue:))
    }

    // MARK: Steps

    /// All steps of the device in their order, each with its time in milliseconds since the start of the record.
    var steps: [(time: Int64, text: String)] {
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

    private var isOutgoing: Bool { record.kind == "outgoing" }

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
        case .unknownUser, .noContact, .tooManyCalls, .providerOff, .justRegistered, .callerLimit:
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
            .forwarded:
            words(end)
        }
    }

    /// Describes in words how the forward of a call ended, for a user without a device.
    private func forwardWords(_ end: TimelineRecord.End) -> String {
        switch end {
        case .forwarded: "the forward's destination rang or answered"
        case .refused: "the forward's destination refused with \(status), so the caller got the status of call.no-wake"
        case .noAnswer: "the forward's destination gave no answer, so the caller got the status of call.no-wake"
        case .unreachable:
            "the forward could not be sent, or its destination was silent, so the caller got the status of call.no-wake"
        case .answered, .answeredElsewhere, .declinedElsewhere, .callerGaveUp, .endedByOperator, .timeOver, .signedOut,
            .tokenDead, .providerOff, .pushFailed, .notOffered, .stopped, .restarted, .boundReached, .notWaited:
            words(end)
        }
    }

    // MARK: Advice

    /// The advice to the operator; `nil` if no step failed.
    var advice: String? {
        if let refusal { return advice(refusal) }
        if isOutgoing { return end == .noAnswer || end == .unreachable ? Self.upstreamAdvice : nil }
        return omissionAdvice
    }

    private var omissionAdvice: String? {
        switch omission {
        case .unknownUser:
            return "No user has that name. Add the user with sippushd user add, then register a phone as this user."
        case .noContact: return "The phone must register: it never did, has signed out, or its push token died."
        case .tooManyCalls: return "limits.calls is the limit of calls that ring or wait at the same time."
        case .providerOff: return "sippushd provider enable \(record.app)"
        case .providerPaused: return cameBack ? nil : "sippushd provider resume \(record.app)"
        case .deviceLimit where record.kind == "notification":
            return "The limits are api.notifications.per-device and call.pushes-per-device."
        case .deviceLimit where !cameBack:
            return "The limit is call.pushes-per-device. Find out who calls this phone so often in a minute."
        case .callerLimit where !cameBack:
            return "The limit is call.pushes-per-caller, which does not apply to callers listed under trusted."
        case .notCarried where record.kind == TimelineRecord.Kind.missedCalls.rawValue:
            return "The app must register with a token for other pushes as well: docs/Providers.md, Apple's tokens."
        case .notCarried: return "docs/Providers.md lists the tokens that carry notifications."
        case nil, .ordinaryContact, .justRegistered, .deviceLimit, .callerLimit: return endAdvice
        }
    }

    private var endAdvice: String? {
        if let sentence = answer.flatMap(providerAdvice) { return sentence }
        switch end {
        case .timeOver: return record.omission == nil ? timeOverAdvice : nil
        case .boundReached, .notWaited:
            return "With call.no-wake.learn, calls wait only as long as the phone's earlier wakes took. "
                + (isAccepted ? timeOverAdvice : "")
        case .forwarded: return isAccepted ? timeOverAdvice : nil
        case .callerGaveUp:
            guard isAccepted, !cameBack else { return nil }
            return "The caller hung up before the phone woke up."
        case .unreachable:
            return
                "The connection on which the phone had registered is gone, so the phone must register again to be called."
        case .noAnswer:
            return
                "The phone vanished without signing out, or the network drops what the daemon sends to it. Check for "
                + "a NAT with a short timeout, a firewall, and messages too long for UDP."
        case .restarted:
            return
                "A crash, kill -9 or a power failure interrupted the call. The earlier steps of the call are not on record: look "
                + "at the system's log of that time."
        case .providerOff where record.kind == TimelineRecord.Kind.contact.rawValue:
            return
                "The phone must register again to be called. Pushes wake it after sippushd provider enable \(record.app)."
        case .answered, .answeredElsewhere, .declinedElsewhere, .refused, .endedByOperator, .signedOut, .tokenDead,
            .providerOff, .pushFailed, .notOffered, .stopped, nil:
            return nil
        }
    }

    /// Whether the phone registered or gave a sign of life while the call waited.
    private var cameBack: Bool { record.registeredAfter != nil || sign != nil }

    private var isAccepted: Bool { answer == .accepted || answer == .acceptedWithNewToken }

    /// The number of milliseconds from the end of the call to the phone's REGISTER; `nil` if they are more than a
    /// minute.
    private var late: Int64? {
        guard let lastRegistered, let ended = record.endedAfter?.milliseconds else { return nil }
        let late = lastRegistered - record.requestedAt.milliseconds - ended
        return (0..<60_000).contains(late) ? late : nil
    }

    private var timeOverAdvice: String {
        let time = Words.time(record.endedAfter?.milliseconds ?? 0)
        if record.registeredAfter != nil {
            return "The phone registered, but the store did not persist the registration in time. Check the disk."
        }
        if isAccepted, let late {
            return
                "The phone registered \(late) ms too late: call.ring-timeout is too short for this phone, and the PBX's own ring "
                + "time must not be shorter."
        }
        if isAccepted {
            return "The phone did not register within \(time) although the provider accepted the push: the app did not "
                + "wake, or cannot reach this daemon. Look at the app's push handling, the phone's battery and notification "
                + "settings, and the phone's network."
        }
        if record.sentAfter == nil {
            return "The push waited in the queue until the time was over: too many other pushes were before it "
                + "(\(settings).limits), or the provider cannot be reached."
        }
        return
            "The provider did not answer within \(time). Check the network to the provider, and the provider's status page."
    }

    private func providerAdvice(_ answer: TimelineRecord.Answer) -> String? {
        switch answer {
        case .accepted, .acceptedWithNewToken: return nil
        case .tokenDead:
            return end == .pushFailed
                ? "The phone has registered since, so its contact stays. The next push shows whether the phone's token works."
                : "The provider no longer knows the app on that phone: the app was removed, or has a new token. "
                    + "The contact is gone until the app registers again."
        case .credentialsRefused where record.reason.contains("clock"):
            return "Set this machine's clock and keep it synchronized: timedatectl. The credentials may be correct."
        case .credentialsRefused where record.reason.contains("TopicDisallowed"):
            return
                "Correct \(settings).topics: they are bundle identifiers of apps of the key's team. Check team-id, too."
        case .credentialsRefused where record.reason.contains("InvalidProviderToken"):
            return
                "Check \(settings)\(credentialKeys): they must belong together, and the key must not be revoked. A wrong clock "
                + "has the same effect: timedatectl."
        case .foreignToken:
            return
                "The phone's app is not the one of \(settings): compare the app's bundle or project with pn-param in its "
                + "contact, and with \(foreignKeys). The credentials are not the cause."
        case .credentialsRefused:
            return "Check \(settings)\(credentialKeys). sippushd check-config shows which of them is missing."
        case .noConnection:
            return "Check the certificate of the server that is named, ca-file, and the certificate files of "
                + "\(settings). Keys and their names are not the cause."
        case .payloadRefused:
            return "Look at \(settings) and at the log line \"the push provider rejects the content of a push\"."
        case .noSuitableToken: return "The app must register with a token for this kind of push in pn-prid."
        case .queueFull: return "\(settings).limits.queue is the limit of pushes that wait."
        case .noApp:
            return
                "Compare pn-prid and pn-param in the phone's contact with the apps under push: docs/Providers.md, What is refused."
        case .paused: return "sippushd provider resume \(provider)"
        case .failed where record.reason.contains("cannot be resolved"):
            return
                "DNS has no address of the provider: ask DNS from this machine with dig, and check the name servers in /etc/resolv.conf."
        case .failed:
            return "Check the network to the provider, and the provider's status page. The log shows each try."
        }
    }

    /// The provider's name, as the settings write it.
    private var provider: String { String(record.app.prefix { $0 != "/" && $0 != "." }) }

    /// The path of the app's settings, such as `push.apns.apps.NAME`.
    private var settings: String {
        let parts = record.app.split(separator: "/", maxSplits: 1)
        return "push.\(provider)" + (parts.count == 2 ? ".apps.\(parts[1])" : "")
    }

    private var service: (any PushServiceSettings.Type)? {
        PushProvider(rawValue: provider).flatMap { PushSettings().service(of: $0) }.map { type(of: $0) }
    }

    private var foreignKeys: String { service?.tokenKeys ?? "the settings" }

    private var credentialKeys: String { service?.credentialKeys ?? "" }
}
