/// The keys and values of a group without the group's type. The sample and the manuals are printed from them.
struct SettingLine: Sendable {
    let key: String
    let help: String
    let isRequired: Bool
    /// When a change takes effect. If `nil`, the moment of the group applies.
    let moment: ChangeMoment?
    let outline: SettingOutline
}

indirect enum SettingOutline: Sendable {
    struct Named: Sendable {
        let name: String
        let lines: [SettingLine]
    }

    /// A single value. If `text` is `nil` there is no value, and `example` is shown instead.
    case value(type: String, text: String?, example: String?)
    case group([SettingLine])
    case named([Named], example: Named)
}

extension SettingsGroup {
    var outline: [SettingLine] {
        Self.schema.map { setting in
            SettingLine(
                key: setting.key, help: setting.help, isRequired: setting.isRequired, moment: setting.ownMoment,
                outline: setting.outline(self))
        }
    }
}
