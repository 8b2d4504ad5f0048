package import ProxyPolicy
package import Registration

/// The limits for the logins and REGISTERs of each source (T8, T17.6).
package struct SourceLimits {
    package var logins: LoginLimit
    package var registers: RegisterLimit

    package init(_ limits: LimitSettings) {
        logins = LoginLimit(perSource: limits.wrongLoginsPerSource, perUser: limits.wrongLoginsPerUser)
        registers = RegisterLimit(limits)
    }
}
