/// Why a contact or a report with push parameters is not taken.
///
/// Its sentence goes into a Warning, the log, and answers over HTTP. It repeats nothing that a phone has sent.
package enum TokenProblem: Hashable, Sendable, CaseIterable {
    /// Nobody knows the service that `pn-provider` names.
    case unknownProvider
    /// The service is known, but the operator has switched it off or never switched it on.
    case providerOff
    case appleParamMissing, appleTopic, appleTeam, appleToken
    case googleParamMissing, googleProject, googleToken
    case webPushResource
    case acrobitsParamMissing, acrobitsToken
    case httpParamMissing, httpApp, httpToken

    /// What is missing or wrong.
    package var sentence: StaticString {
        switch self {
        case .unknownProvider: "pn-provider names no push provider that is known here"
        case .providerOff: "this push provider is switched off here"
        case .appleParamMissing: "pn-param names no topic, and there is not exactly one here: expected TEAM.TOPIC"
        case .appleTopic: "pn-param names a topic that is not served here"
        case .appleTeam: "pn-param names a team that is not served here"
        case .appleToken: "pn-prid is no token of APNs: expected at least 64 hexadecimal digits"
        case .googleParamMissing: "pn-param is missing, and there are several FCM projects here"
        case .googleProject: "pn-param names an FCM project that is not served here"
        case .googleToken: "pn-prid is no token of FCM: expected letters, digits, colon, hyphen and underscore"
        case .webPushResource: "pn-prid is no https URL of a push service that is served here"
        case .acrobitsParamMissing: "pn-param is missing: expected the app id"
        case .acrobitsToken: "pn-prid is no token of Acrobits, or pn-param does not fit it"
        case .httpParamMissing: "pn-param is missing: expected the name of an app"
        case .httpApp: "pn-param names an app that is not served here"
        case .httpToken: "pn-prid is no token: expected UTF-8 without control characters"
        }
    }

    /// What the operator can do when contacts that were taken before have it.
    package var cure: StaticString {
        switch self {
        case .unknownProvider: "nothing: this daemon cannot push to it"
        case .providerOff: "sippushd provider enable"
        case .appleParamMissing: "list exactly one topic, or let the app send pn-param"
        case .appleTopic: "add the topic to push.apns.topics or to one of push.apns.apps"
        case .appleTeam: "see push.apns.team-id"
        case .googleParamMissing: "let the app send pn-param"
        case .googleProject: "add the value to push.fcm.params or to one of push.fcm.apps"
        case .webPushResource: "see push.webpush.hosts"
        case .acrobitsParamMissing, .httpParamMissing: "let the app send pn-param"
        case .httpApp: "see push.http.apps"
        case .appleToken, .googleToken, .acrobitsToken, .httpToken:
            "nothing can be pushed to such a token: the app must register with another, or device remove ends it"
        }
    }
}
