// The tables of divvy.toml that are about notifications: [notify], and [notify.NAME] for each receiver.
#pragma once

#include "base/result.h"
#include "dialect/config/config_document.h"
#include "model/notify.h"

namespace divvy::dialect {

/// True if the entry's section is one of these.
bool IsOfNotify(const ConfigEntry& entry);
/// Puts it into `settings`. An error says what is wrong without the line, which the caller knows.
Status ReadNotifyEntry(const ConfigEntry& entry, NotifySettings& settings);
/// What an entry says, once all of them are read: a receiver is whole.
Status CheckNotifyEntry(const ConfigEntry& entry, const NotifySettings& settings);

}  // namespace divvy::dialect
