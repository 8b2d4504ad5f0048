import Registration

/// Limits on the logins and REGISTERs of one source (T8, T17.6).
struct SourceLimits {
    var logins: LoginLimit
    var registers: RegisterLimit

    init(_ limits: LimitSettings) {
        logins = LoginLimit(perSource: limits.wrongLoginsPerSource, perUser: limits.wrongLoginsPerUser)
        registers = RegisterLimit(limits)
    }
}
