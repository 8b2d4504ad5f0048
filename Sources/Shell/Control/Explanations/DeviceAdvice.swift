import PushDelivery

/// The advice to the operator about one device's part in a call.
extension DeviceExplanation {
    /// The advice to the operator; `nil` if no step failed.
    package var advice: String? {
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
        case .doNotDisturb: return "The rule is the user's: sippushd user rules \(record.aor)"
        case .delayed where end == .callerGaveUp || end == .timeOver || end == .unreachable:
            return "The call ended before the device's turn: sippushd user rules \(record.aor), and call.ring-order."
        case nil, .ordinaryContact, .justRegistered, .deviceLimit, .callerLimit, .delayed: return endAdvice
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
            .providerOff, .pushFailed, .notOffered, .stopped, .turnCame, .turnOver, nil:
            return nil
        }
    }

    /// Whether the phone registered or sent another message while the call waited.
    private var cameBack: Bool { record.registeredAfter != nil || sign != nil }

    private var isAccepted: Bool { answer == .accepted || answer == .acceptedWithNewToken }

    /// The milliseconds from the end of the call to the phone's REGISTER; `nil` above a minute.
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

    /// The advice about a push server that the phone has chosen; `nil` if the usual advice applies.
    private func hostAdvice(_ answer: TimelineRecord.Answer) -> String? {
        guard let service, let app = service.chosenHostsApp, record.app == "\(provider)/\(app)" else { return nil }
        return switch answer {
        case .noConnection where record.reason.contains("the host has the address"):
            "The daemon connects only to public addresses of other machines. If the push server is yours, add its name to \(settings).private-hosts."
        case .noConnection:
            "The push server's certificate must be valid for its name. For a certificate of your own authority, set \(settings).ca-file."
        case .credentialsRefused:
            "This push server alone refuses the VAPID key: the app subscribed with another key, and must subscribe again. Other push servers are not affected."
        case .payloadRefused:
            "The push server refuses the push, and the reason has its status. Other push servers are not affected."
        case .queueFull:
            "Too many pushes wait for this push server: \(settings).host-queue and \(settings).host-rate are the limits."
        case .failed:
            "The user of the phone has chosen this push server: the user can ask its operator, or choose another push server."
        case .accepted, .acceptedWithNewToken, .tokenDead, .foreignToken, .noSuitableToken, .noApp, .paused: nil
        }
    }

    private func providerAdvice(_ answer: TimelineRecord.Answer) -> String? {
        if let advice = hostAdvice(answer) { return advice }
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

    /// The push provider's name, as the settings write the name.
    private var provider: String { String(record.app.prefix { $0 != "/" && $0 != "." }) }

    /// The path of the app's settings, such as `push.apns.apps.NAME`.
    private var settings: String {
        let parts = record.app.split(separator: "/", maxSplits: 1)
        guard parts.count == 2, service?.chosenHostsApp.map({ $0 != parts[1] }) ?? true else {
            return "push.\(provider)"
        }
        return "push.\(provider).apps.\(parts[1])"
    }

    private var service: (any PushServiceSettings.Type)? {
        PushProvider(rawValue: provider).flatMap { PushSettings().service(of: $0) }.map { type(of: $0) }
    }

    private var foreignKeys: String { service?.tokenKeys ?? "the settings" }

    private var credentialKeys: String { service?.credentialKeys ?? "" }
}
